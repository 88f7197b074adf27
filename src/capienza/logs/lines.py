"""Bytes to lines: any encoding error, terminal code or length, with bounded memory.

Legend: a line is what stands between two line feeds and has one number; a progress bar rewrites its line with carriage
returns, and a line may be longer than a piece, so one line can give several pieces with the same number.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from capienza.logs.prefix import taken_apart

PIECE_CHARACTERS = 16_384
"""Longest text given on at once; a longer line comes in pieces, broken at a space where it has one near."""
MOST_REWRITES = 64
"""Pieces of a progress bar that are given on; of more, the first and the last ones are."""

HEAD_CHARACTERS = 160
"""How far into a line a JSON object may begin, behind what a container or a launcher puts before it."""

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[@-Z\\-_])")
_MESSAGES = ("log", "message", "msg", "event", "MESSAGE", "text")
"""Names under which loggers keep the message of a line."""
_STACKS = ("exc_info", "exception", "exc_text", "stack_trace", "stack", "traceback", "error")
"""Names under which they keep the call stack that belongs to it."""
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Line(NamedTuple):
    """A piece of a log: the number of its line, from 1, and its text without terminal codes."""

    number: int
    text: str


class LineReader:
    """Cuts a stream of bytes into lines. `feed` what has arrived, `close` at the end; each gives the lines ready."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._start = b""
        self._kept = ""
        self._number = 1

    @property
    def count(self) -> int:
        """Lines so far, the last one whether whole or not."""
        return self._number - (0 if self._kept else 1)

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that these bytes complete. Invalid bytes become the replacement character."""
        return self._cut(self._decoded(data, final=False))

    def close(self) -> Iterator[Line]:
        """What is left: a last line without its end."""
        yield from self._cut(self._decoded(b"", final=True))
        if self._kept:
            yield from self._pieces(self._kept)
            self._kept = ""
            self._number += 1

    def _decoded(self, data: bytes, *, final: bool) -> str:
        if self._decoder is None:
            self._start += data
            if len(self._start) < 3 and not final:
                return ""
            data, self._start = self._start, b""
            encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
            self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        return self._decoder.decode(data, final)

    def _cut(self, text: str) -> Iterator[Line]:
        lines = text.split("\n")
        has_codes = _has_codes(self._kept) or _has_codes(text)
        lines[0] = self._kept + lines[0]
        self._kept = lines.pop()
        for line in lines:
            if has_codes or len(line) > PIECE_CHARACTERS or '{"' in line[:HEAD_CHARACTERS]:
                yield from self._pieces(line)
            else:
                yield Line(self._number, line)
            self._number += 1
        while len(self._kept) > PIECE_CHARACTERS:
            end = self._kept.rfind(" ", PIECE_CHARACTERS // 2, PIECE_CHARACTERS) + 1 or PIECE_CHARACTERS
            head, self._kept = self._kept[:end], self._kept[end:]
            yield from self._pieces(head)

    def _pieces(self, line: str) -> Iterator[Line]:
        for text in rewrites(cleaned(unpacked(line))):
            for start in range(0, len(text), PIECE_CHARACTERS):
                yield Line(self._number, text[start : start + PIECE_CHARACTERS])
            if not text:
                yield Line(self._number, "")


def unpacked(line: str) -> str:
    """The message of a line that a container or a logger wrote as a JSON object; any other line as it is.

    Its own line feeds become carriage returns, which start a text of the same line. What stands before the object, such
    as a time or the name of a process, stands before each.
    """
    at = line.find('{"', 0, HEAD_CHARACTERS)
    if at < 0 or not line.rstrip().endswith("}") or taken_apart(line).words[:2] != '{"':
        return line
    try:
        found = msgspec.json.decode(line[at:])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return line
    fields = found.get("fields")  # of loggers written in Rust
    found = {**found, **fields} if isinstance(fields, dict) else found
    parts = [
        next((found[name] for name in names if isinstance(found.get(name), str)), None)
        for names in (_MESSAGES, _STACKS)
    ]
    texts = [text for part in parts if part is not None for text in part.rstrip("\n").split("\n")]
    if not texts:
        return line
    is_warning = str(found.get("level", "")).lower().startswith("warn")
    return ("WARNING: " if is_warning else "") + "\r".join(f"{line[:at]}{text}" for text in texts)


def _has_codes(text: str) -> bool:
    return "\x1b" in text or "\r" in text or "\0" in text


def cleaned(text: str) -> str:
    """Text without terminal codes and NUL."""
    if "\x1b" in text:
        text = _TERMINAL.sub("", text)
    return text.replace("\0", "") if "\0" in text else text


def rewrites(line: str) -> list[str]:
    """What a line showed one after another: a carriage return starts it again."""
    line = line.rstrip("\r")
    if "\r" not in line:
        return [line]
    shown = [part for part in line.split("\r") if part.strip()] or [""]
    return shown if len(shown) <= MOST_REWRITES else shown[:8] + shown[-(MOST_REWRITES - 8) :]
