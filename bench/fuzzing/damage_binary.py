"""Damage to binary files: numbers at known places, bits, lengths and pieces; and to the table of a GGUF file."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

from fuzzing.gguf_writer import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    LAYOUTS,
    STRING,
    U32,
    U64,
    Array,
    GgufTable,
    Mark,
    write_gguf,
)
from fuzzing.hostile import LENGTHS, SCALARS, TYPED, encode

Chance = random.Random
MAX_TEXT = 5000
ARCHITECTURES = (
    "llama", "qwen2", "qwen3moe", "gemma3", "gemma4", "deepseek2", "gpt-oss", "mamba2", "rwkv7", "jamba", "bert",
    "clip", "t5", "llama4", "phi3", "qwen3next", "lfm2", "granitehybrid", "cohere2", "falcon-h1",
)  # fmt: skip


def damage_binary(chance: Chance, data: bytes, marks: Sequence[Mark], splices: Sequence[bytes]) -> bytes:
    """One to four changes to numbers at known places, bits, lengths and pieces."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if not found:
            break
        what = chance.random()
        at = chance.randrange(len(found))
        if what < 0.5 and marks:
            offset, size = chance.choice(marks)
            found[offset : offset + size] = lie(chance, bytes(found[offset : offset + size]), size)
        elif what < 0.65:
            found[at] ^= 1 << chance.randrange(8)
        elif what < 0.72:
            found[at : at + 8] = lie(chance, bytes(found[at : at + 8]), 8)
        elif what < 0.80:
            del found[at:]
        elif what < 0.86:
            del found[at : at + chance.choice((1, 4, 8, 100))]
        elif what < 0.92:
            found[at:at] = found[at : at + chance.choice((1, 8, 64, 1000))] * chance.choice((1, 2, 50))
        elif what < 0.96 and splices:
            other = chance.choice(splices)
            found[at:] = other[min(at, len(other)) :]
        else:
            found[at:at] = chance.randbytes(chance.choice((1, 3, 200)))
    return bytes(found)


def lie(chance: Chance, found: bytes, size: int) -> bytes:
    """Another number of `size` bytes: near the true one, or one that breaks things."""
    true = int.from_bytes(found, "little")
    near = (true + 1, true - 1, true * 2, true // 2, true ^ (1 << chance.randrange(8 * size)))
    value = chance.choice(near) if chance.random() < 0.4 else chance.choice(LENGTHS)
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def damage_gguf(chance: Chance, table: GgufTable) -> bytes:
    """One to three changes to values, names and rows, in a file that is otherwise well formed."""
    metadata, tensors = list(table.metadata), list(table.tensors)
    for _ in range(chance.choice((1, 1, 2, 3))):
        rows: list[tuple[str, Any, Any]] = chance.choice((metadata, metadata, tensors))
        if not rows:
            continue
        at = chance.randrange(len(rows))
        name, second, third = rows[at]
        what = chance.random()
        if what < 0.15:
            del rows[at]
        elif what < 0.25:
            rows.insert(chance.randrange(len(rows) + 1), rows[chance.randrange(len(rows))])
        elif what < 0.4:
            rows[at] = (another_name(chance, name), second, third)
        elif rows is metadata:
            rows[at] = (name, *another_value(chance, second, third))
        elif chance.random() < 0.5:
            rows[at] = (name, second, chance.choice((0, 1, 2, 8, 12)))
        else:
            rows[at] = (name, another_shape(chance, second), third)
    return write_gguf(table._replace(metadata=metadata, tensors=tensors))[0]


def another_name(chance: Chance, name: str) -> str:
    parts = name.split(".")
    parts[chance.randrange(len(parts))] = chance.choice(("", "0", "1", "99", "-1", "x" * 300, "\x1b[31m", "blk", "é"))
    return chance.choice((".".join(parts), name.upper(), f"{name}.scales", name + "\x00"))


def another_value(chance: Chance, type_id: int, value: Any) -> tuple[int, Any]:
    """Another type and value that go together, so that only their meaning is wrong."""
    what = chance.random()
    if what < 0.5 and type_id in LAYOUTS and isinstance(value, int):
        size = struct.calcsize(f"<{LAYOUTS[type_id]}")
        return type_id, chance.choice((0, 1, value + 1, value * 2, 255, *LENGTHS)) % (1 << 8 * size - 1)
    if what < 0.7:
        text = str(chance.choice(chance.choice((SCALARS, TYPED, ARCHITECTURES))))[:MAX_TEXT]
        return STRING, encode(text).decode(errors="replace")
    if what < 0.8:
        return ARRAY, Array(U32, [chance.choice((0, 1, 2, 4, 2**31)) for _ in range(chance.choice((0, 1, 2, 3, 5000)))])
    if what < 0.9:
        return chance.choice((F32, F64)), chance.choice((0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf")))
    return chance.choice((BOOL, U64, I32)), chance.choice((0, 1))


def another_shape(chance: Chance, sizes: list[int]) -> list[int]:
    at = chance.randrange(len(sizes)) if sizes else 0
    return chance.choice((
        sizes[::-1], [*sizes, 1], sizes[:-1], [0] * len(sizes), [*sizes[:at], 32, *sizes[at + 1 :]],
        [*sizes[:at], 2**20, *sizes[at + 1 :]], [2**40, 2**40], [32] * 5,
    ))  # fmt: skip
