"""A small GGUF writer that remembers where it put every number, so that a lie can be told about each.

Layout: ggml/include/gguf.h of llama.cpp. Version 2 and 3 differ in nothing that a little-endian reader sees.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
LAYOUTS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
GGML_F32, GGML_F16, GGML_Q4_0, GGML_Q8_0, GGML_Q4_K = 0, 1, 2, 8, 12
BLOCKS = {GGML_F32: (1, 4), GGML_F16: (1, 2), GGML_Q4_0: (32, 18), GGML_Q8_0: (32, 34), GGML_Q4_K: (256, 144)}
ALIGNMENT = 32


class Mark(NamedTuple):
    """A number in the file: where it is and how many bytes it has."""

    offset: int
    size: int


class Array(NamedTuple):
    """An array value of one element type."""

    element_type: int
    values: list[Any]


class Writer:
    """Bytes so far, and the numbers in them."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.marks: list[Mark] = []

    def number(self, layout: str, value: Any) -> None:
        packed = struct.pack(f"<{layout}", value)
        self.marks.append(Mark(len(self.data), len(packed)))
        self.data += packed

    def text(self, text: str) -> None:
        encoded = text.encode()
        self.number("Q", len(encoded))
        self.data += encoded

    def value(self, type_id: int, value: Any) -> None:
        if type_id == STRING:
            self.text(value)
        elif type_id == ARRAY:
            self.number("I", value.element_type)
            self.number("Q", len(value.values))
            for element in value.values:
                self.value(value.element_type, element)
        else:
            self.number(LAYOUTS[type_id], value)


MAX_DATA_BYTES = 2_000_000


class GgufTable(NamedTuple):
    """What a file says: metadata as (key, type, value), tensors as (name, sizes, type)."""

    version: int
    metadata: list[tuple[str, int, Any]]
    tensors: list[tuple[str, list[int], int]]


def write_gguf(table: GgufTable) -> tuple[bytes, list[Mark]]:
    """The file and its numbers; data are zeros, and missing where there would be too many."""
    version, metadata, tensors = table
    writer = Writer()
    writer.data += b"GGUF"
    writer.number("I", version)
    writer.number("Q", len(tensors))
    writer.number("Q", len(metadata))
    for key, type_id, value in metadata:
        writer.text(key)
        writer.number("I", type_id)
        writer.value(type_id, value)
    position = 0
    for name, sizes, type_id in tensors:
        writer.text(name)
        writer.number("I", len(sizes))
        for size in sizes:
            writer.number("Q", size)
        writer.number("I", type_id)
        writer.number("Q", position % 2**64)
        position += padded(tensor_bytes(sizes, type_id))
    if position <= MAX_DATA_BYTES:
        writer.data += bytes(padded(len(writer.data)) - len(writer.data) + position)
    return bytes(writer.data), writer.marks


def tensor_bytes(sizes: list[int], type_id: int) -> int:
    elements, size = BLOCKS[type_id]
    count = 1
    for one in sizes:
        count *= one
    return count // elements * size


def padded(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT
