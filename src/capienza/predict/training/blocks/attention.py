"""Attention: projections, rotary positions, and the product by implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from capienza.predict.training.blocks.linear import linear
from capienza.predict.training.blocks.modules import Linear
from capienza.predict.training.operations import FP32, add, as_rows, cast, elementwise, join, multiply, part
from capienza.predict.training.tape import Gradients, Tape, Tensor, connected

FLASH_ROWS = 128


class Attention(msgspec.Struct, frozen=True):
    """One layer's attention. Sizes of one forward pass: `batch` rows of `tokens`."""

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    heads: int
    key_heads: int
    head: int
    batch: int
    tokens: int


def attention(tape: Tape, rows: Tensor, module: Attention, positions: tuple[Tensor, Tensor]) -> Tensor:
    """Rows in, rows out."""
    query = as_rows(tape, linear(tape, rows, module.query))
    key = as_rows(tape, linear(tape, rows, module.key))
    value = linear(tape, rows, module.value)
    query, key = _rotated(tape, query, key, positions)
    made = _fused(tape, query, key, value, module)
    made = linear(tape, made, module.out)
    return made


def _rotated(tape: Tape, query: Tensor, key: Tensor, positions: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    cosine, sine = positions
    turned = add(tape, multiply(tape, query, cosine), multiply(tape, _half_turned(tape, query), sine))
    turned_key = add(tape, multiply(tape, key, cosine), multiply(tape, _half_turned(tape, key), sine))
    return turned, turned_key


def _half_turned(tape: Tape, rows: Tensor) -> Tensor:
    first, second = part(tape, rows, rows.elements // 2), part(tape, rows, rows.elements // 2)
    return join(tape, elementwise(tape, second, keeps="nothing"), first)


def _fused(tape: Tape, query: Tensor, key: Tensor, value: Tensor, module: Attention) -> Tensor:
    """Flash attention: the result and a number a row are kept."""
    if tape.autocast:
        value, key, query = (cast(tape, one, tape.autocast) for one in (value, key, query))
    rows = module.batch * module.heads * module.tokens
    sizes = [(one.elements, one.item) for one in (query, key, value)]
    padded = module.batch * module.heads * -(-module.tokens // FLASH_ROWS) * FLASH_ROWS
    expanded = module.batch * module.tokens * module.heads * module.head if module.key_heads < module.heads else 0
    scratch = [padded * flash_head(module.head) * FP32, padded * FP32] + [expanded * query.item] * 2

    def back(_: Gradients) -> Sequence[Tensor | None]:
        made = [tape.new(*size) for size in sizes]
        tape.scratch(*scratch)
        return made

    node = tape.node((query, key, value), back, query, key, value)
    made = connected(tape.new(rows * module.head, query.item), node)
    sums = tape.new(rows, FP32)
    seeds: Any = tape.new(2, 8), tape.new(1, 8)
    tape.keep(node, made, sums, *seeds)
    return made


def flash_head(size: int) -> int:
    """The size of a head as the flash kernels round it."""
    step = 32 if size <= 128 else 64
    return -(-size // step) * step
