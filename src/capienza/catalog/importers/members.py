"""Where the members of a JSON list or object begin and end, so that each is decoded alone and has a place.

The data is valid JSON already (checked by a pass that keeps nothing), so brackets, commas and texts tell all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")


def check(data: bytes) -> None:
    """Raise `msgspec.DecodeError` or `RecursionError` for what is not JSON; keeps nothing of it."""
    msgspec.json.decode(data, type=msgspec.Raw)


def find(data: bytes, path: tuple[str, ...]) -> int | None:
    """Where the list or object under these keys begins; None when there is none.

    Raises `msgspec.DecodeError` for one of them that is written twice.
    """
    position = _skip(data, 0)
    for key in path:
        if data[position : position + 1] != b"{":
            return None
        found = None
        for name, begin, _ in members(data, position):
            if name == key:
                if found is not None:
                    message = f"the key {key} is written twice"
                    raise msgspec.DecodeError(message)
                found = begin
        if found is None:
            return None
        position = found
    return position if data[position : position + 1] in (b"[", b"{") else None


def members(data: bytes, start: int) -> Iterator[tuple[str | int, int, int]]:
    """Key or index, begin and end of each member of the list or object that begins at `start`."""
    is_object = data[start : start + 1] == b"{"
    depth, begin, index = 0, start + 1, 0
    key: bytes | None = None
    for token in _TOKEN.finditer(data, start):
        kind = token[0]
        if kind in (b"[", b"{"):
            depth += 1
        elif kind in (b"]", b"}"):
            depth -= 1
        if depth == 1 and is_object and key is None and kind[:1] == b'"':
            key = kind
        elif depth == 1 and is_object and kind == b":":
            begin = token.end()
        elif depth == 0 or (depth == 1 and kind == b","):
            first = _skip(data, begin)
            end = begin + len(data[begin : token.start()].rstrip())
            if first < end:
                yield msgspec.json.decode(key, type=str) if key is not None else index, first, end
            key, begin, index = None, token.end(), index + 1
            if depth == 0:
                return


def _skip(data: bytes, position: int) -> int:
    match = _SPACE.match(data, position)
    return match.end() if match else position
