"""Attention: projections, norms of heads, rotary positions; the product itself is in `products`."""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.predict.training.blocks.linear import linear
from capienza.predict.training.blocks.modules import Linear, Norm
from capienza.predict.training.blocks.norm import norm
from capienza.predict.training.blocks.products import Shape, product, repeated
from capienza.predict.training.operations import (
    FP32,
    add,
    as_rows,
    cast,
    copy,
    dropout,
    elementwise,
    in_place,
    join,
    multiply,
    part,
)
from capienza.predict.training.operations import split as split_all
from capienza.predict.training.tape import Tape, Tensor


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """One layer's attention. `joined`: one matrix for query, key and value, cut by slices or all at once.

    `heads_first`: the norms of query and key run over all heads together, before they are told apart. `paired`
    positions turn neighbours in fp32 by resident tables, and `repeats` copies key and value for every head (torchtune).
    """

    query: Linear | None = None
    key: Linear | None = None
    value: Linear | None = None
    joined: Linear | None = None
    is_sliced: bool = True
    out: Linear
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    heads_first: bool = False
    rotary: Literal["half", "interleaved", "paired", "none"] = "half"
    rotary_fp32: frozenset[str] = frozenset()
    rotary_share: float = 1.0
    joins_rotary: bool = False
    is_fused: bool = False
    repeats: bool = False
    has_dropout: bool = False
    shape: Shape


def attention(tape: Tape, rows: Tensor, module: Attention, positions: tuple[Tensor, Tensor] | None) -> Tensor:
    """Rows in, rows out."""
    query, key, value = _projected(tape, rows, module)
    if module.rotary == "paired":
        query, key = _paired(tape, query), _paired(tape, key)
    elif positions is not None and module.rotary != "none":
        query, key = _rotated(tape, query, key, positions, module)
    shape = module.shape
    if module.repeats and shape.heads != shape.key_heads:
        key, value = repeated(tape, key, shape), repeated(tape, value, shape)
        shape = msgspec.structs.replace(shape, key_heads=shape.heads)
    made = product(tape, query, key, value, shape)
    if module.joins_rotary:
        # What `cat` makes lies head by head, and so does the result: it is copied to lie row by row.
        made = copy(tape, made)
    made = linear(tape, made, module.out)
    if module.has_dropout:
        made = dropout(tape, made)
    return made


def _projected(tape: Tape, rows: Tensor, module: Attention) -> tuple[Tensor, Tensor, Tensor]:
    if module.joined is not None:
        return _cut(tape, rows, module, module.joined)
    assert module.query is not None
    assert module.key is not None
    assert module.value is not None
    query = _one(tape, rows, module.query, module.query_norm, module)
    key = _one(tape, rows, module.key, module.key_norm, module)
    value = linear(tape, rows, module.value)
    return query, key, value


def _one(tape: Tape, rows: Tensor, projection: Linear, head_norm: Norm | None, module: Attention) -> Tensor:
    made = linear(tape, rows, projection)
    if head_norm is None:
        return as_rows(tape, made) if module.rotary not in ("none", "paired") else made
    if module.heads_first:
        return as_rows(tape, norm(tape, made, head_norm))
    return norm(tape, as_rows(tape, made), head_norm)


def _cut(tape: Tape, rows: Tensor, module: Attention, joined: Linear) -> tuple[Tensor, Tensor, Tensor]:
    shape = module.shape
    count = shape.batch * shape.tokens * shape.head
    sizes = [count * heads for heads in (shape.heads, shape.key_heads, shape.key_heads)]
    all_three = linear(tape, rows, joined)
    if module.is_sliced:
        query, key, value = (part(tape, all_three, size) for size in sizes)
    else:
        query, key, value = split_all(tape, all_three, sizes)
    return query, key, value


def _rotated(
    tape: Tape, query: Tensor, key: Tensor, positions: tuple[Tensor, Tensor], module: Attention
) -> tuple[Tensor, Tensor]:
    if module.is_fused:
        return in_place(tape, query), in_place(tape, key)
    item = query.item
    if module.rotary == "interleaved":
        positions = copy(tape, positions[0]), copy(tape, positions[1])
    if "rows" in module.rotary_fp32:
        query, key = cast(tape, query, FP32), cast(tape, key, FP32)
    query, key = _turned(tape, query, positions, module), _turned(tape, key, positions, module)
    return (cast(tape, query, item), cast(tape, key, item)) if module.rotary_fp32 else (query, key)


def _turned(tape: Tape, rows: Tensor, positions: tuple[Tensor, Tensor], module: Attention) -> Tensor:
    cosine, sine = positions
    if not module.joins_rotary:
        return add(tape, multiply(tape, rows, cosine), multiply(tape, half_turned(tape, rows), sine))
    turned = int(rows.elements * module.rotary_share)
    first, rest = part(tape, rows, turned), part(tape, rows, rows.elements - turned)
    made = add(tape, multiply(tape, first, cosine), multiply(tape, half_turned(tape, first), sine))
    return join(tape, made, rest)


def half_turned(tape: Tape, rows: Tensor) -> Tensor:
    """`cat((-second half, first half))`."""
    first, second = part(tape, rows, rows.elements // 2), part(tape, rows, rows.elements // 2)
    return join(tape, elementwise(tape, second, keeps="nothing"), first)


def _paired(tape: Tape, rows: Tensor) -> Tensor:
    """Each of two neighbours times cosine and sine, stacked again (torchtune's RotaryPositionalEmbeddings)."""
    wide, half = cast(tape, rows, FP32), rows.elements // 2
    table = Tensor(half, FP32, None)
    first = add(tape, multiply(tape, part(tape, wide, half), table), multiply(tape, part(tape, wide, half), table))
    second = add(tape, multiply(tape, part(tape, wide, half), table), multiply(tape, part(tape, wide, half), table))
    return cast(tape, join(tape, first, second), rows.item)
