"""The index of a sharded safetensors model: which file holds which tensor.

Source: what huggingface_hub and transformers write, `{"metadata": ..., "weight_map": {tensor: file}}`.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from capienza.artifacts.folder import Folder
from capienza.artifacts.source import Source, key_at, legible
from capienza.errors import InputError, Place, template

MAX_INDEX_BYTES = 24 * 1024**2
MAX_INDEX_ENTRIES = 220_000
"""The largest public models have 384 experts in 60 layers: about 210 000 entries in 24 MB."""

INDEX_TOO_LARGE = template(
    "artifacts.index-too-large",
    "has {found} B and {entries} entries; at most {accepted} B and {accepted_entries} entries are read",
    "the file is damaged or hostile: download it again from its source",
)
BAD_INDEX = template(
    "artifacts.index-not-valid",
    "is not an index of safetensors files: {reason}",
    "an index holds weight_map, an object from tensor names to file names: download it again",
)
INDEX_TWICE = template(
    "artifacts.index-duplicate-tensor",
    "has {entries} entries for {found} tensors: a name is given twice, or holds a quotation mark",
    "the file is damaged or hostile: download it again from its source",
)
EMPTY_INDEX = template(
    "artifacts.index-empty",
    "has an empty weight_map",
    "an index holds weight_map, an object from tensor names to file names: download it again",
)
OUTSIDE = template(
    "artifacts.index-path-outside",
    "names the file {found}; a relative path inside the folder is accepted",
    "the index is hostile or written by hand: do not use it",
)
_LEAVES = re.compile(r"\.\.(?:/|$)|[/~]|[A-Za-z]:|.*[\\\0]|.*/\.\.(?:/|$)", re.DOTALL)
_PAIR = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*:\s*("[^"\\]*+(?:\\.[^"\\]*+)*+")?', re.DOTALL)
PIECE_BYTES = 2 * 1024**2
END_OF_ENTRY = b'.safetensors",'


class Index(msgspec.Struct, frozen=True):
    """Tensor name to file name, and the bytes that all tensors take together, as the index states them."""

    weight_map: dict[str, str]
    total_size: object = None


class _Index(msgspec.Struct):
    weight_map: msgspec.Raw
    metadata: Any = None


_INDEX = msgspec.json.Decoder(_Index)


def read_index(source: Source, folder: Folder) -> Index:
    """What the index says, every file being in the folder. Raises `InputError`."""
    _check_limit(source.size_bytes, 0, source.name)
    try:
        read = _INDEX.decode(source.read(0, source.size_bytes))
        total = read.metadata.get("total_size") if isinstance(read.metadata, dict) else None
        pieces = _pieces(read.weight_map)
        del read
        # An entry is two JSON strings, so four quotes.
        entries = sum(piece.count(b'"') for piece in pieces) // 4
        _check_limit(source.size_bytes, entries, source.name)
        weight_map = _decode(pieces, source.name, folder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = type(error).__name__ if isinstance(error, RecursionError) else str(error)
        raise InputError(BAD_INDEX(reason=reason), Place(source.name)) from error
    if not weight_map:
        raise InputError(EMPTY_INDEX(), Place(source.name))
    if entries != len(weight_map):
        raise InputError(INDEX_TWICE(entries=entries, found=len(weight_map)), Place(source.name))
    return Index(weight_map, total)


def _pieces(raw: msgspec.Raw) -> list[bytes]:
    """The weight map as several smaller objects, the last one first: text and result are never whole side by side."""
    view = memoryview(raw)
    if bytes(view[:1]) != b"{":
        return [bytes(view)]
    pieces = []
    begin, end = 1, len(view) - 1
    while begin < end:
        piece = bytes(view[begin : min(begin + PIECE_BYTES, end)])
        if begin + len(piece) < end:
            # Every name of a file ends so; inside a key, the quote would have a backslash before it.
            cut = piece.rfind(END_OF_ENTRY)
            piece = bytes(view[begin:end]) if cut < 0 else piece[: cut + len(END_OF_ENTRY)]
        begin += len(piece)
        pieces.append(b"{" + piece.rstrip(b", \r\n\t") + b"}")
    return pieces[::-1]


def _check_limit(size_bytes: int, entries: int, name: str) -> None:
    if size_bytes > MAX_INDEX_BYTES or entries > MAX_INDEX_ENTRIES:
        message = INDEX_TOO_LARGE(
            found=size_bytes, entries=entries, accepted=MAX_INDEX_BYTES, accepted_entries=MAX_INDEX_ENTRIES
        )
        raise InputError(message, Place(name))


def _decode(pieces: list[bytes], name: str, folder: Folder) -> dict[str, str]:
    there = tuple(file for file in folder.names() if file.endswith(".safetensors"))
    # Decoding into the file names that are there checks them and keeps one text for each, not one for each tensor.
    known: Any = Literal.__getitem__(there or ("",))
    decoder = msgspec.json.Decoder(dict[str, known])
    weight_map: dict[str, str] = {}
    while pieces:
        piece = pieces.pop()
        try:
            weight_map |= decoder.decode(piece)
        except msgspec.ValidationError:
            _name_the_culprit(piece, there, name, folder)
            raise
    return weight_map


def _name_the_culprit(piece: bytes, there: tuple[str, ...], name: str, folder: Folder) -> None:
    """Raise for the first entry whose file is not there."""
    for match in _PAIR.finditer(piece):
        file = msgspec.json.decode(match[2] or b'""')
        if file not in there:
            place = key_at(name, msgspec.json.decode(match[1]))
            if _LEAVES.match(file):
                raise InputError(OUTSIDE(found=legible(file)), place) from None
            if match[2]:
                raise folder.absent(file, place) from None
