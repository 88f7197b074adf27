"""Bytes of a record file to a plain document, within limits: hostile input ends in an error, not in memory.

JSON here is stricter than the standard reader: one value for each key, no NaN or infinity in any spelling,
and limits on size and depth that are checked before anything is built.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from capienza.errors import InputError, Place, template

MAX_FILE_BYTES = 1024 * 1024
"""A record is a few kilobytes; one with a thousand claims is still below a quarter of this."""
MOST = "1 MiB"
"""The same, as people read it."""
MAX_DEPTH = 32

TOO_LARGE = template(
    "evidence.too-large",
    "the record has {size_bytes}; at most {limit} are read",
    "keep the data in a file of its own and name its digest in inputs",
)
TOO_DEEP = template(
    "evidence.too-deep",
    "the record nests deeper than {limit} levels",
    "a record has four levels; write it again as the how-to on evidence shows",
)
NOT_JSON = template(
    "evidence.not-json",
    "not a JSON document: {problem}",
    "the file is cut off or is something else; copy it again from where it was made",
)
NOT_AN_OBJECT = template(
    "evidence.not-an-object",
    "a record is one JSON object; found {found}",
    "the how-to on evidence lists the fields of a record",
)
DUPLICATE_KEY = template(
    "evidence.duplicate-key",
    "the key {key} is written twice in one object",
    "keep one: two readers would see two different records",
)
NOT_FINITE = template(
    "evidence.not-finite",
    "{found} is not a number that a record may hold",
    "leave the claim out: what is not known is not stated",
)

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""Also a string that never ends, so that no quote is scanned twice."""
_BRACKET = re.compile(rb"[\[\]{}]")


def parse(data: bytes, file: str | None = None) -> dict[str, Any]:
    """The JSON object in `data`. Raises `InputError` at `file` for anything else."""
    place = Place(file)
    if len(data) > MAX_FILE_BYTES:
        raise InputError(TOO_LARGE(size_bytes=len(data), limit=MOST), place)
    _check_depth(data, place)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(items)
        if len(document) != len(items):
            position = {key: number for number, (key, _) in enumerate(items)}
            twice = next(key for number, (key, _) in enumerate(items) if position[key] != number)
            raise InputError(DUPLICATE_KEY(key=twice[:64]), place)
        return document

    def refuse(text: str) -> NoReturn:
        raise InputError(NOT_FINITE(found=text), place)

    def finite(text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            refuse(text[:64])
        return number

    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=refuse, parse_float=finite)
    except json.JSONDecodeError as error:
        raise InputError(NOT_JSON(problem=error.msg), Place(file, error.lineno, error.colno)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(NOT_JSON(problem=str(error)[:200]), place) from error
    if not isinstance(document, dict):
        raise InputError(NOT_AN_OBJECT(found=type(document).__name__), place)
    return document


def _check_depth(data: bytes, place: Place) -> None:
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", data)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            raise InputError(TOO_DEEP(limit=MAX_DEPTH), place)
