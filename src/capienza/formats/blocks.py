"""How many bytes each number format takes: the only table of block sizes.

Legend: a block is the smallest unit a format can store, `elements` numbers in `bytes` bytes. Bits per
weight = 8 x bytes / elements. Plain types have blocks of one element; the sub-byte types of safetensors are
packed across the whole tensor; GGUF types are packed row by row, so every row is a whole number of blocks.
Sources: safetensors format page and 0.8 crate (plain and sub-byte types); ggml.h and ggml-common.h (GGUF).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from capienza.errors import NOWHERE, InputError, Message, Place, Template, template

UNKNOWN_FORMAT = template("formats.unknown", "the number format {found} is not known", "use one of: {accepted}")
MISSPELT_FORMAT = template(
    "formats.misspelt",
    "the number format {found} is not known; did you mean {suggestion}?",
    "use one of: {accepted}",
)
PARTIAL_ROW = template(
    "formats.partial-row",
    "a tensor of shape [{shape}] cannot be stored as {format}: a row of {count} elements is not a whole number of"
    " blocks of {block}",
    "check the tensor's shape and type: the file is damaged, or was written by a version this reader does not know",
)
PARTIAL_TENSOR = template(
    "formats.partial-tensor",
    "a tensor of shape [{shape}] cannot be stored as {format}: {count} elements do not fill whole bytes, which takes"
    " a multiple of {block}",
    "check the tensor's shape and type: the file is damaged, or was written by a version this reader does not know",
)
BAD_SHAPE = template(
    "formats.bad-shape",
    "a tensor has the shape [{shape}]; at most {dimensions} dimensions from 0 to 2^63 - 1 are accepted",
    "the file is damaged: download it again",
)

MAX_DIMENSIONS = 64
"""What torch accepts; it also bounds the arithmetic on a hostile header."""


class Block(msgspec.Struct, frozen=True):
    """The smallest unit of a format: `elements` numbers stored in `bytes` bytes."""

    elements: int
    bytes: int


PLAIN: dict[str, Block] = {
    **dict.fromkeys(("fp64", "int64", "uint64", "complex64"), Block(1, 8)),
    **dict.fromkeys(("fp32", "int32", "uint32"), Block(1, 4)),
    **dict.fromkeys(("fp16", "bf16", "int16", "uint16"), Block(1, 2)),
    **dict.fromkeys(("fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "e8m0"), Block(1, 1)),
    **dict.fromkeys(("int8", "uint8", "bool"), Block(1, 1)),
}
"""One number in whole bytes."""

PACKED: dict[str, Block] = {"fp4": Block(2, 1), "fp6_e2m3": Block(4, 3), "fp6_e3m2": Block(4, 3)}
"""Numbers smaller than a byte, packed without regard to rows."""

GGUF_BLOCKS: dict[str, Block] = {
    "q4_0": Block(32, 18),
    "q4_1": Block(32, 20),
    "q5_0": Block(32, 22),
    "q5_1": Block(32, 24),
    "q8_0": Block(32, 34),
    "q8_1": Block(32, 36),
    "q2_k": Block(256, 84),
    "q3_k": Block(256, 110),
    "q4_k": Block(256, 144),
    "q5_k": Block(256, 176),
    "q6_k": Block(256, 210),
    "q8_k": Block(256, 292),
    "iq2_xxs": Block(256, 66),
    "iq2_xs": Block(256, 74),
    "iq3_xxs": Block(256, 98),
    "iq1_s": Block(256, 50),
    "iq4_nl": Block(32, 18),
    "iq3_s": Block(256, 110),
    "iq2_s": Block(256, 82),
    "iq4_xs": Block(256, 136),
    "iq1_m": Block(256, 56),
    "tq1_0": Block(256, 54),
    "tq2_0": Block(256, 66),
    "mxfp4": Block(32, 17),
    "nvfp4": Block(64, 36),
    "q1_0": Block(128, 18),
    "q2_0": Block(64, 18),
}
"""Blocks of a row, with their scales inside.

q8_1 is the C struct's 36 bytes (two fp16 and 32 int8; gguf-py 0.19 counts two fp32): it never reaches a file.
"""

BLOCKS: dict[str, Block] = PLAIN | PACKED | GGUF_BLOCKS

GGUF_TYPES: dict[int, str] = {
    0: "fp32",
    1: "fp16",
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    9: "q8_1",
    10: "q2_k",
    11: "q3_k",
    12: "q4_k",
    13: "q5_k",
    14: "q6_k",
    15: "q8_k",
    16: "iq2_xxs",
    17: "iq2_xs",
    18: "iq3_xxs",
    19: "iq1_s",
    20: "iq4_nl",
    21: "iq3_s",
    22: "iq2_s",
    23: "iq4_xs",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "fp64",
    29: "iq1_m",
    30: "bf16",
    34: "tq1_0",
    35: "tq2_0",
    39: "mxfp4",
    40: "nvfp4",
    41: "q1_0",
    42: "q2_0",
}
"""GGUF tensor type ids. Ids 4, 5, 31-33 and 36-38 were withdrawn and no current loader reads them."""

SAFETENSORS_DTYPES: dict[str, str] = {
    "BOOL": "bool",
    "F4": "fp4",
    "F6_E2M3": "fp6_e2m3",
    "F6_E3M2": "fp6_e3m2",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "fp8_e5m2",
    "F8_E4M3": "fp8_e4m3",
    "F8_E8M0": "e8m0",
    "F8_E4M3FNUZ": "fp8_e4m3fnuz",
    "F8_E5M2FNUZ": "fp8_e5m2fnuz",
    "I16": "int16",
    "U16": "uint16",
    "F16": "fp16",
    "BF16": "bf16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "fp32",
    "C64": "complex64",
    "F64": "fp64",
    "I64": "int64",
    "U64": "uint64",
}
"""Names of the dtypes in a safetensors header."""


def unknown(plain: Template, misspelt: Template, found: str, accepted: Iterable[str], meant: str = "") -> Message:
    """The message for a word that is not accepted, with the nearest accepted one when there is any."""
    from difflib import get_close_matches  # late: only an error needs it

    words = tuple(accepted)
    near = [meant] if meant else get_close_matches(found.lower()[:64], words, n=1)
    if near:
        return misspelt(found=found[:64], accepted=words, suggestion=near[0])
    return plain(found=found[:64], accepted=words)


def block_of(name: str, place: Place = NOWHERE) -> Block:
    """The block of a format. Raises `InputError` for a name that is not in `BLOCKS`."""
    block = BLOCKS.get(name)
    if block is None:
        raise InputError(unknown(UNKNOWN_FORMAT, MISSPELT_FORMAT, name, BLOCKS), place)
    return block


def tensor_bytes(shape: Sequence[int], format: str, place: Place = NOWHERE) -> int:
    """Exact bytes of a tensor. `shape` is row length last (a GGUF table lists it first).

    Raises `InputError` for an unknown format, a negative dimension, or a count that is not a whole number
    of blocks: of each row for GGUF formats, of the whole tensor for the packed ones.
    """
    block = block_of(format, place)
    if len(shape) > MAX_DIMENSIONS or any(not 0 <= size < 2**63 for size in shape):
        shown = [size if -(2**63) <= size < 2**63 else "..." for size in shape[:8]]
        raise InputError(BAD_SHAPE(shape=_show(shown), dimensions=MAX_DIMENSIONS), place)
    elements = math.prod(shape)
    by_row = format in GGUF_BLOCKS
    counted = (shape[-1] if shape else 1) if by_row else elements
    if counted % block.elements:
        partial = PARTIAL_ROW if by_row else PARTIAL_TENSOR
        raise InputError(partial(shape=_show(shape), format=format, count=counted, block=block.elements), place)
    return elements // block.elements * block.bytes


def _show(shape: Sequence[int | str]) -> str:
    return ", ".join(str(size) for size in shape)
