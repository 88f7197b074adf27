"""JSON Lines files of objects, read one bounded line at a time: hostile input ends in an error, not in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from capienza.errors import InputError, Parameter, Place, Template, phrase, shortened, template
from capienza.yamlmarks.source import open_file

NOT_JSON = template(
    "jsonlines.not-json", "the line is not JSON: {problem}", "each line is one whole JSON object, on one line"
)
NOT_AN_OBJECT = template(
    "jsonlines.not-an-object", "the line is no JSON object: {problem}", "each line is one whole JSON object"
)
REPEATED_KEY = template(
    "jsonlines.repeated-key", "the key {key} is written twice in one object", "keep the one that is meant"
)
TOO_LONG = template(
    "jsonlines.too-long",
    "the line has more than {limit} bytes",
    "check the file: a line of this kind is far shorter",
)
TOO_MANY_VALUES = template(
    "jsonlines.too-many-values",
    "the line holds more than {limit} values",
    "check the file: a line of this kind holds far fewer",
)
PACKED = template("jsonlines.packed", "the file is packed ({kind}), not text", "unpack it, and name the .jsonl file")
OTHER_TEXT = template(
    "jsonlines.other-text",
    "the file is {kind}; UTF-8 without a byte order mark is read",
    "save it as UTF-8 without a byte order mark",
)
AT_BYTE = template("jsonlines.at-byte", "what stands at byte {byte} cannot stand there")
KINDS = {
    list: phrase("it is a list, not an object"), str: phrase("it is a text, not an object"),
    int: phrase("it is a number, not an object"), float: phrase("it is a number, not an object"),
    bool: phrase("it is true or false, not an object"), type(None): phrase("it is null, not an object"),
}  # fmt: skip
CUT = phrase("it ends before its object does")
TOO_DEEP = phrase("it is nested too deeply")
NOT_UTF8 = phrase("it is not UTF-8 text")
UNREADABLE = phrase("it cannot be read")
NO_NUMBER = phrase("it holds NaN or Infinity, which no JSON value is")
STARTS: dict[bytes, tuple[Template, str]] = {
    b"\x1f\x8b": (PACKED, "gzip"),
    b"\x28\xb5\x2f\xfd": (PACKED, "zstd"),
    b"PK\x03\x04": (PACKED, "zip"),
    b"\xfd7zXZ": (PACKED, "xz"),
    b"BZh": (PACKED, "bzip2"),
    b"\xef\xbb\xbf": (OTHER_TEXT, phrase("UTF-8 with a byte order mark")),
    b"\xff\xfe": (OTHER_TEXT, "UTF-16"),
    b"\xfe\xff": (OTHER_TEXT, "UTF-16"),
    b"{\x00": (OTHER_TEXT, "UTF-16"),
    b"\x00{": (OTHER_TEXT, "UTF-16"),
}
"""How a file begins that is no plain UTF-8 text."""
Row = dict[str, Any]
_WRITTEN_OTHERWISE = re.compile(rb'"[ \t\r\n]+:|\\u00(?:22|3[aA])')
_HINTS = (b'" ', b'"\t', b'"\r', b'"\n', b"\\u00")
MOST_VALUES = 1_000_000
"""Of one line: each takes 56 bytes of memory or more, and may be two bytes of the line."""
_ENDLESS = re.compile(rb"[:\[,]\s*-?(?:NaN|Infinity)\b")


def read_objects(path: str, line_bytes: int) -> Iterator[tuple[int, Row]]:
    """Each object with its line number; empty lines are passed over.

    Raises `InputError` or `UnreachableError` naming file and line: a line longer than `line_bytes`, no JSON object, a
    key written twice, a file that is packed or in another encoding.
    """
    with open_file(Path(path)) as file:
        _check_start(file, path)
        for number, line in enumerate(_lines(file, path, line_bytes), start=1):
            if line.strip():
                yield number, row_of(line, Place(path, line=number))


def row_of(line: bytes, place: Place) -> Row:
    """The object that one line is. Raises `InputError` at `place`."""
    # Signs inside texts count too: a line that is let through holds no more values than that.
    if len(line) > MOST_VALUES and sum(line.count(sign) for sign in (b",", b"[", b"{")) > MOST_VALUES:
        raise InputError(TOO_MANY_VALUES(limit=MOST_VALUES), place)
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(NOT_JSON(problem=_problem(error, line)), place) from error
    if not isinstance(row, dict):
        raise InputError(NOT_AN_OBJECT(problem=KINDS[type(row)]), place)
    _check_keys(line, row, place)
    return row


def _check_start(file: BinaryIO, path: str) -> None:
    """Raises `InputError` for a file that its first bytes show to be no plain text."""
    start = file.read(8)
    file.seek(0)
    for bytes_, (said, kind) in STARTS.items():
        if start.startswith(bytes_):
            raise InputError(said(kind=kind), Place(path))


def _lines(file: BinaryIO, path: str, line_bytes: int) -> Iterator[bytes]:
    number = 0
    while line := file.readline(line_bytes + 1):
        number += 1
        if len(line) > line_bytes:
            raise InputError(TOO_LONG(limit=line_bytes), Place(path, line=number))
        yield line


def _problem(error: Exception, line: bytes) -> Parameter:
    """What is wrong with a line, without the decoder's own paths."""
    text = str(error)
    byte = re.search(r"\(byte (\d+)\)", text)
    if isinstance(error, RecursionError) or "recursion" in text.casefold():
        return TOO_DEEP
    if isinstance(error, UnicodeDecodeError) or "UTF-8" in text:
        return NOT_UTF8
    if "truncated" in text:
        return CUT
    if _ENDLESS.search(line):
        return NO_NUMBER
    return AT_BYTE(byte=int(byte[1])) if byte else UNREADABLE


def _is_written_otherwise(line: bytes) -> bool:
    """May the line have a colon apart from its key, or a quote or colon that is escaped?"""
    return any(hint in line for hint in _HINTS) and _WRITTEN_OTHERWISE.search(line) is not None


def _check_keys(line: bytes, row: Row, place: Place) -> None:
    """Raises `InputError` for a key that an object of the line has twice: nothing says which value is meant."""
    # Written anew, the line has a `":` for each key that was kept: as many before, and no key was dropped.
    if line.count(b'":') == msgspec.json.encode(row).count(b'":') and not _is_written_otherwise(line):
        return

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = next(name for index, name in enumerate(names) if name in names[:index])
            raise InputError(REPEATED_KEY(key=f'"{shortened(twice, 60)}"'), Place(place.file, line=place.line))

    try:
        json.loads(line, object_pairs_hook=once, parse_int=len, parse_float=len)
    except (ValueError, RecursionError) as error:
        raise InputError(
            NOT_JSON(problem=TOO_DEEP if isinstance(error, RecursionError) else UNREADABLE), place
        ) from error
