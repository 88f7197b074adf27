"""GGUF metadata values: numbers and texts are kept, what is long is passed over and described.

Value types by id (gguf.h): 0 u8, 1 i8, 2 u16, 3 i16, 4 u32, 5 i32, 6 f32, 7 bool, 8 string, 9 array, 10 u64, 11 i64,
12 f64. An array is an element type, a 64-bit count and its elements.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import msgspec

from capienza.artifacts.cursor import Cursor
from capienza.artifacts.source import key_at
from capienza.errors import InputError, template

MAX_KEPT_TEXT_BYTES = 64 * 1024
MAX_KEPT_ELEMENTS = 4096
"""Arrays with one value for each layer are kept; those with one for each token never are."""
MAX_TEXTS = 2**21
"""Texts in one array. The largest public vocabularies list fewer than 10^6 merges."""

BAD_TYPE = template(
    "artifacts.gguf-bad-value-type",
    "has the value type {found}; 0 to 12 are accepted, and no array of arrays",
    "the file is damaged, or was written by a version this reader does not know",
)
NOT_FINITE = template(
    "artifacts.gguf-not-finite",
    "is {found}; a finite number is accepted",
    "the file is damaged: convert the model again",
)
TOO_MANY_TEXTS = template(
    "artifacts.gguf-too-many-texts",
    "is an array of {found} texts; at most {accepted} are read",
    "the file is damaged or hostile: download it again from its source",
)


class LongValue(msgspec.Struct, frozen=True):
    """A value that was passed over: `length` elements of `element_type` (of a text: bytes, as "u8")."""

    element_type: str
    length: int


Value = int | float | bool | str | list[Any] | LongValue

TEXT, ARRAY = 8, 9
SCALARS: dict[int, tuple[str, struct.Struct]] = {
    0: ("u8", struct.Struct("<B")),
    1: ("i8", struct.Struct("<b")),
    2: ("u16", struct.Struct("<H")),
    3: ("i16", struct.Struct("<h")),
    4: ("u32", struct.Struct("<I")),
    5: ("i32", struct.Struct("<i")),
    6: ("f32", struct.Struct("<f")),
    7: ("bool", struct.Struct("<?")),
    10: ("u64", struct.Struct("<Q")),
    11: ("i64", struct.Struct("<q")),
    12: ("f64", struct.Struct("<d")),
}
_TYPE = struct.Struct("<i")


def read_value(cursor: Cursor, key: str) -> Value:
    """The next value, type first. Raises `InputError` for an unknown type, NaN, infinity and a truncated file."""
    (kind,) = cursor.unpack(_TYPE)
    if kind == TEXT:
        return _text(cursor)
    if kind == ARRAY:
        return _array(cursor, key)
    layout = _scalar(cursor, key, kind)[1]
    cursor.keep(32)
    value: Value = cursor.unpack(layout)[0]
    return _finite(cursor, key, value)


def _text(cursor: Cursor) -> str | LongValue:
    length = cursor.length()
    if length > MAX_KEPT_TEXT_BYTES:
        cursor.skip(length)
        return LongValue("u8", length)
    cursor.keep(length + 64)
    # Free text, such as a licence, is only ever shown: bytes that are not UTF-8 are shown as such.
    return cursor.take(length).decode(errors="backslashreplace")


def _array(cursor: Cursor, key: str) -> list[Any] | LongValue:
    (kind,) = cursor.unpack(_TYPE)
    count = cursor.length()
    keeps = count <= MAX_KEPT_ELEMENTS and not key.startswith("tokenizer.")
    if kind == TEXT:
        if count > MAX_TEXTS:
            message = TOO_MANY_TEXTS(found=count, accepted=MAX_TEXTS)
            raise InputError(message, key_at(cursor.source.name, key))
        if keeps:
            return [_text(cursor) for _ in range(count)]
        cursor.skip_texts(count)
        return LongValue("string", count)
    name, layout = _scalar(cursor, key, kind)
    if keeps:
        cursor.keep(40 * count)
        data = cursor.take(count * layout.size)
        return [_finite(cursor, key, value) for (value,) in layout.iter_unpack(data)]
    cursor.skip(count * layout.size)
    return LongValue(name, count)


def _scalar(cursor: Cursor, key: str, kind: int) -> tuple[str, struct.Struct]:
    if kind not in SCALARS:
        raise InputError(BAD_TYPE(found=kind), key_at(cursor.source.name, key))
    return SCALARS[kind]


def _finite(cursor: Cursor, key: str, value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(NOT_FINITE(found=str(value)), key_at(cursor.source.name, key))
    return value
