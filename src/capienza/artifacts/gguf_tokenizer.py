"""Digests of what turns a text into tokens in a GGUF file: its tokenizer, and its chat template.

The tokenizer is every key that begins with `tokenizer.`, but for the chat templates: names and values as they lie in
the file, sorted by name. Two files of one model have the same digest, whatever their weights are held in.
"""

from __future__ import annotations

import hashlib

from capienza.artifacts.cursor import Cursor
from capienza.artifacts.gguf import MAX_KEYS, TWO_COUNTS
from capienza.artifacts.gguf_values import read_value
from capienza.artifacts.source import Source

PREFIX, CHAT_TEMPLATE = "tokenizer.", "tokenizer.chat_template"
_HEAD_BYTES = 8
_PIECE_BYTES = 2**20


def tokenizer_digests(source: Source) -> tuple[str | None, str | None]:
    """The sha256 of the tokenizer and that of the chat template's text, None for what the file does not hold.

    `source` is a file whose head `read_gguf` has read already, which checks magic and version. Raises `InputError` for
    a damaged file.
    """
    cursor = Cursor(source)
    cursor.skip(_HEAD_BYTES)
    _, count = cursor.unpack(TWO_COUNTS)
    spans: dict[str, tuple[int, int]] = {}
    chat: str | None = None
    for _ in range(min(count, MAX_KEYS)):
        name = cursor.name()
        begin = cursor.position
        value = read_value(cursor, name)
        if name == CHAT_TEMPLATE:
            chat = hashlib.sha256(value.encode()).hexdigest() if isinstance(value, str) else None
        elif name.startswith(PREFIX) and not name.startswith(CHAT_TEMPLATE):
            spans[name] = begin, cursor.position
    return _digest(source, spans) if spans else None, chat


def _digest(source: Source, spans: dict[str, tuple[int, int]]) -> str:
    found = hashlib.sha256()
    for name in sorted(spans):
        begin, end = spans[name]
        found.update(f"{name}\n{end - begin}\n".encode())
        for at in range(begin, end, _PIECE_BYTES):
            found.update(source.read(at, min(_PIECE_BYTES, end - at)))
    return found.hexdigest()
