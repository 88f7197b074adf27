"""The product of query, key and value, by implementation.

flash      the result and one fp32 number a row of the query are kept; backward: the query's gradient in fp32, sums
efficient  as flash; with grouped heads, key and value were repeated before (transformers does so for a mask, and for
           heads above 256 from 5.13 on); a mask is kept as numbers to be added
xformers   as efficient, whatever the heads are (Unsloth repeats key and value before it)
eager      all scores: softmax in fp32 and its copy in the rows' format are kept (modeling_llama.py)
written    all scores, masked in place, softmax in the rows' format (LLMs-from-scratch, ch03 MultiHeadAttention)
math       all scores, as `_scaled_dot_product_attention_math` takes them apart: 16 bits are widened to fp32
Sources: aten/src/ATen/native/transformers (attention.cpp, cuda/flash_attn/flash_api.cpp, cuda/attention_backward.cu),
transformers/integrations/sdpa_attention.py (5.11, 5.12, 5.13 and 5.24).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from capienza.predict.training.operations import FP32, add, cast, copy, dropout, elementwise, in_place, scale
from capienza.predict.training.parallel.selective import kept
from capienza.predict.training.tape import Gradients, Tape, Tensor, connected

FLASH_ROWS = 128
EFFICIENT_ROWS = 32
LARGEST_FUSED_HEAD = 256


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one forward pass: `batch` rows of `tokens`. `is_capped`: a tanh over the scores.

    `keeps_groups`: without a mask, key and value are handed on grouped however wide the heads are.
    """

    batch: int
    tokens: int
    heads: int
    key_heads: int
    head: int
    implementation: Literal["sdpa", "eager", "written", "flash", "xformers"]
    has_mask: bool = False
    is_capped: bool = False
    keeps_groups: bool = False
    has_dropout: bool = False


def product(tape: Tape, query: Tensor, key: Tensor, value: Tensor, shape: Shape) -> Tensor:
    """Rows of all heads."""
    if shape.implementation == "eager":
        return _eager(tape, query, key, value, shape)
    if shape.implementation == "written":
        return _written(tape, query, key, value, shape)
    if tape.autocast:
        value, key, query = (cast(tape, one, tape.autocast) for one in (value, key, query))
    elif shape.implementation in ("flash", "xformers") and query.item == FP32:
        value, key, query = (cast(tape, one, 2) for one in (value, key, query))
    if shape.implementation == "xformers":
        key, value = repeated(tape, key, shape), repeated(tape, value, shape)
        return _efficient(tape, query, key, value, shape)
    if shape.implementation == "flash" or (query.item == 2 and shape.head <= LARGEST_FUSED_HEAD and not shape.has_mask):
        return _flash(tape, query, key, value, shape)
    is_repeated = shape.has_mask or (shape.head > LARGEST_FUSED_HEAD and not shape.keeps_groups)
    if is_repeated or shape.key_heads == shape.heads:
        key, value = repeated(tape, key, shape), repeated(tape, value, shape)
        return _efficient(tape, query, key, value, shape)
    return _math(tape, query, key, value, shape)


def _flash(tape: Tape, query: Tensor, key: Tensor, value: Tensor, shape: Shape) -> Tensor:
    rows = shape.batch * shape.heads * shape.tokens
    padded = shape.batch * shape.heads * -(-shape.tokens // FLASH_ROWS) * FLASH_ROWS
    expanded = rows * shape.head * query.item if shape.key_heads < shape.heads else 0
    return _fused(
        tape, query, key, value, rows, [padded * flash_head(shape.head) * FP32, padded * FP32, expanded, expanded]
    )


def _efficient(tape: Tape, query: Tensor, key: Tensor, value: Tensor, shape: Shape) -> Tensor:
    rows = shape.batch * shape.heads * shape.tokens
    sums = shape.batch * shape.heads * -(-shape.tokens // EFFICIENT_ROWS) * EFFICIENT_ROWS
    mask = tape.new(shape.tokens**2, query.item) if shape.has_mask else None
    return _fused(tape, query, key, value, sums, [rows * FP32, rows * shape.head * FP32], mask)


def _fused(
    tape: Tape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sums: int,
    scratch: Sequence[int],
    mask: Tensor | None = None,
) -> Tensor:
    sizes = [(one.elements, one.item) for one in (query, key, value)]

    def back(_: Gradients) -> Sequence[Tensor | None]:
        made = [tape.new(*size) for size in sizes]
        tape.scratch(*scratch)
        return made

    node = tape.node((query, key, value), back, query, key, value, mask)
    made = connected(kept(tape, query.elements, query.item, is_product=False), node)
    numbers = kept(tape, sums, FP32, is_product=False)
    seeds: Any = tape.new(2, 8), tape.new(1, 8)
    tape.keep(node, made, numbers, *seeds)
    return made


def flash_head(size: int) -> int:
    """The size of a head as the flash kernels round it."""
    step = 32 if size <= 128 else 64
    return -(-size // step) * step


def repeated(tape: Tape, rows: Tensor, shape: Shape) -> Tensor:
    """Key or value once for every head of the query."""
    if shape.heads == shape.key_heads:
        return rows
    elements, item = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(elements, item),))
    return connected(tape.new(elements * (shape.heads // shape.key_heads), item), node)


def _eager(tape: Tape, query: Tensor, key: Tensor, value: Tensor, shape: Shape) -> Tensor:
    key, value = repeated(tape, key, shape), repeated(tape, value, shape)
    before = query.item
    scores = scale(tape, _batched(tape, query, key, shape, to_scores=True))
    if shape.is_capped:
        scores = scale(tape, scores)
        scores = elementwise(tape, scores, keeps="result")
        scores = scale(tape, scores)
    scores = add(tape, scores, Tensor(shape.tokens**2, scores.item, None))
    scores = cast(tape, softmax(tape, scores), before)
    if shape.has_dropout:
        scores = dropout(tape, scores)
    made = _batched(tape, scores, value, shape, to_scores=False)
    return copy(tape, made)


def _written(tape: Tape, query: Tensor, key: Tensor, value: Tensor, shape: Shape) -> Tensor:
    key, value = repeated(tape, key, shape), repeated(tape, value, shape)
    scores = _masked(tape, _batched(tape, query, key, shape, to_scores=True), shape)
    shares = scale(tape, scores)
    del scores
    shares = softmax(tape, shares, shares.item)
    if shape.has_dropout:
        shares = dropout(tape, shares)
    return copy(tape, _batched(tape, shares, value, shape, to_scores=False))


def _masked(tape: Tape, scores: Tensor, shape: Shape) -> Tensor:
    """`masked_fill_`: in place, with the mask as truth values kept."""
    elements, item = scores.elements, scores.item
    node = tape.node((scores,), lambda _: (tape.new(elements, item),), tape.new(shape.tokens**2, 1))
    return connected(Tensor(elements, item, scores.block), node)


def softmax(tape: Tape, rows: Tensor, item: int = FP32) -> Tensor:
    """Softmax of a copy in that format, fp32 unless told; the result is kept."""
    rows = cast(tape, rows, item)
    elements = rows.elements
    node = tape.node((rows,), lambda _: (tape.new(elements, item),))
    made = connected(tape.new(elements, item), node)
    tape.keep(node, made)
    return made


def _batched(tape: Tape, left: Tensor, right: Tensor, shape: Shape, *, to_scores: bool) -> Tensor:
    """A product for every head; under autocast in its format."""
    if tape.autocast:
        right, left = cast(tape, right, tape.autocast), cast(tape, left, tape.autocast)
    item = left.item
    sizes = (left.elements, right.elements)
    rows = shape.batch * shape.heads * shape.tokens
    node = tape.node((left, right), lambda _: [tape.new(size, item) for size in sizes], right, left)
    return connected(tape.new(rows * (shape.tokens if to_scores else shape.head), item), node)


def _math(tape: Tape, query: Tensor, key: Tensor, value: Tensor, shape: Shape) -> Tensor:
    """Under autocast as well, the whole of it runs in fp32."""
    before, (autocast, tape.autocast) = query.item, (tape.autocast, None)
    query, key, value = (cast(tape, one, FP32) for one in (query, key, value))
    key, value = repeated(tape, key, shape), repeated(tape, value, shape)
    query, key = scale(tape, query), scale(tape, key)
    # The mask is added in place, and rows of which nothing is seen are looked for (`_safe_softmax`).
    scores = in_place(tape, _batched(tape, query, key, shape, to_scores=True))
    shares = softmax(tape, scores)
    tape.scratch(scores.elements)
    del scores
    made = cast(tape, _batched(tape, shares, value, shape, to_scores=False), before)
    tape.autocast = autocast
    return made
