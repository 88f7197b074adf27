"""LitGPT's own block and loss, operation by operation.

One product makes query, key and value, grouped by keys; grouped heads are copied out and repeated. Positions turn a
part of each head in fp32, and `cat` puts the rest beside it. Names end where those of the modules end; a module's
input lasts as long as its call.
The loss: the head runs over pieces of 128 tokens, the strategy copies every piece to fp32, and cross entropy keeps
another one of each. Training of all weights takes the head whole and cuts the loss; validation cuts nothing.
Sources: litgpt 0.4.13 model.py, lora.py, utils.py (chunked_cross_entropy), finetune/lora.py, finetune/full.py;
lightning 2.4 fabric/wrappers.py (convert_output).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from capienza.predict.training.blocks.attention import Attention, half_turned
from capienza.predict.training.blocks.linear import base, functional
from capienza.predict.training.blocks.loss import Head, cross_entropy, divided
from capienza.predict.training.blocks.mlp import Mlp
from capienza.predict.training.blocks.modules import Adapter, Linear
from capienza.predict.training.blocks.norm import norm
from capienza.predict.training.blocks.products import Shape, product
from capienza.predict.training.operations import (
    FP32,
    add,
    cast,
    copy,
    dropout,
    elementwise,
    join,
    multiply,
    part,
    scale,
    split,
)
from capienza.predict.training.tape import Gradients, Tape, Tensor, connected

if TYPE_CHECKING:
    from capienza.predict.training.blocks.decoder import Layer

PIECE_TOKENS = 128
MOST_PIECES = 4096
"""Pieces of a loss that are walked one by one: of more, several count as one, a 4096th of the logits."""
REBOUND = ("forward", "graph")
"""Where the loop's loss takes the place of the one before, whose graph goes."""


def block(tape: Tape, rows: Tensor, module: Layer) -> Tensor:
    """One block."""
    assert module.before_attention is not None
    assert isinstance(module.mlp, Mlp)
    normed = norm(tape, rows, module.before_attention)
    seen = _attention(tape, normed, module.attention)
    if module.after_attention is not None:
        seen = norm(tape, seen, module.after_attention)
    if module.is_parallel:
        if module.before_mlp is not None:
            normed = norm(tape, rows, module.before_mlp)
        return add(tape, add(tape, _mlp(tape, normed, module.mlp), seen), rows)
    assert module.before_mlp is not None
    rows = add(tape, seen, rows)
    made = _mlp(tape, norm(tape, rows, module.before_mlp), module.mlp)
    if module.after_mlp is not None:
        made = norm(tape, made, module.after_mlp)
    return add(tape, made, rows)


def _attention(tape: Tape, rows: Tensor, module: Attention) -> Tensor:
    shape, joined = module.shape, module.joined
    assert joined is not None
    count = shape.batch * shape.tokens * shape.head
    all_three = _linear(tape, rows, joined, has_groups=shape.heads != shape.key_heads)
    query, key, value = split(tape, all_three, [count * shape.heads, count * shape.key_heads, count * shape.key_heads])
    if shape.heads != shape.key_heads:
        # A single group of heads needs no copy: it is a view, also as often as it is wanted.
        query = copy(tape, query) if shape.key_heads > 1 else query
        key, value = (_repeated(tape, one, shape) for one in (key, value))
    turned_query, turned_key = _turned(tape, query, module), _turned(tape, key, module)
    query, key = _with_rest(tape, turned_query, query), _with_rest(tape, turned_key, key)
    made = product(tape, query, key, value, msgspec.structs.replace(shape, key_heads=shape.heads))
    # What `cat` makes lies head by head, and so does the result: it is copied to lie row by row.
    return _linear(tape, copy(tape, made), module.out)


def _repeated(tape: Tape, rows: Tensor, shape: Shape) -> Tensor:
    """One for every head of the query; the gradient is summed over them."""
    elements, item = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(elements, item),))
    all_of_them = elements * (shape.heads // shape.key_heads)
    made = tape.new(all_of_them, item) if shape.key_heads > 1 else Tensor(all_of_them, item, rows.block)
    return connected(made, node)


def _turned(tape: Tape, rows: Tensor, module: Attention) -> Tensor:
    """The part of each head that positions turn: cosine and sine are in fp32 and resident."""
    rows = part(tape, rows, int(rows.elements * module.rotary_share))
    shape = module.shape
    cosine = sine = Tensor(int(shape.tokens * shape.head * module.rotary_share), FP32, None)
    rotated = half_turned(tape, rows)
    made = add(tape, multiply(tape, rows, cosine), multiply(tape, rotated, sine))
    return cast(tape, made, rows.item)


def _with_rest(tape: Tape, turned: Tensor, rows: Tensor) -> Tensor:
    return join(tape, turned, part(tape, rows, rows.elements - turned.elements))


def _mlp(tape: Tape, rows: Tensor, module: Mlp) -> Tensor:
    if module.gate is None:
        made = _linear(tape, rows, module.up)
        made = elementwise(tape, made, keeps="input")
        return _linear(tape, made, module.down)
    gate = _linear(tape, rows, module.gate)
    up = _linear(tape, rows, module.up)
    made = multiply(tape, elementwise(tape, gate, keeps="input"), up)
    return _linear(tape, made, module.down)


def _linear(tape: Tape, rows: Tensor, module: Linear, *, has_groups: bool = False) -> Tensor:
    made = base(tape, rows, module)
    if module.adapter is None:
        return made
    return add(tape, made, _update(tape, rows, module, module.adapter, has_groups=has_groups))


def _update(tape: Tape, rows: Tensor, module: Linear, adapter: Adapter, *, has_groups: bool) -> Tensor:
    """Of a module that is one product the pair's; of one that is several, a convolution's, spread among zeros."""
    low = functional(tape, dropout(tape, rows) if adapter.has_dropout else rows, adapter.down)
    several = adapter.down.rows // adapter.up.columns
    if several == 1 and adapter.up.rows == module.weight.rows:
        return scale(tape, functional(tape, low, adapter.up))
    wide = _convolved(tape, low, adapter)
    if has_groups and several > 1:
        wide = join(tape, *(part(tape, wide, wide.elements // several) for _ in range(several)))
    if adapter.up.rows < module.weight.rows:
        wide = _among_zeros(tape, wide, module)
    return scale(tape, wide)


def _convolved(tape: Tape, low: Tensor, adapter: Adapter) -> Tensor:
    """A convolution of one place: its input and its weight are kept."""
    item, weight = tape.autocast or adapter.up.item, adapter.up
    low = cast(tape, low, item)
    narrow, count = low.elements, low.elements // adapter.down.rows

    def back(_: Gradients) -> list[Tensor]:
        return [tape.new(narrow, item), tape.new(weight.elements, weight.item)]

    node = tape.node((low, weight.tensor), back, low)
    return connected(tape.new(count * weight.rows, item), node)


def _among_zeros(tape: Tape, rows: Tensor, module: Linear) -> Tensor:
    """`index_copy_` into zeros keeps what it copies, and selects its gradient out of the other."""
    elements, item = rows.elements, rows.item
    adapter = module.adapter
    assert adapter is not None
    node = tape.node((rows,), lambda _: (tape.new(elements, item),), rows if module.keeps_update else None)
    return connected(tape.new(elements // adapter.up.rows * module.weight.rows, item), node)


def loss_of(tape: Tape, rows: Tensor, head: Head) -> tuple[Tensor, None]:
    """The loss. The loop's names hold logits and loss until the next ones are there: a graph lasts as long."""
    whole, vocabulary = head.is_whole or not tape.is_training, head.module.weight.rows
    wide = tape.names["logits"] = _pieces(tape, rows, head, head.rows if whole else head.piece_rows)
    seen = [*wide[:-1], part(tape, wide[-1], wide[-1].elements)]
    if head.piece_rows > PIECE_TOKENS:
        # Rows of several sequences, each without its last token: they do not lie one after the other.
        seen[-1] = copy(tape, seen[-1])
    if whole and tape.is_training:
        each = max(PIECE_TOKENS, -(-head.rows // MOST_PIECES))
        seen = split(tape, seen[0], [size * vocabulary for size in _sizes(head.rows, each)])
    losses = [cross_entropy(tape, one, one.elements // vocabulary) for one in seen]
    loss = divided(tape, join(tape, *losses))
    tape.segment(REBOUND)
    tape.names["loss"] = loss
    return loss, None


def _pieces(tape: Tape, rows: Tensor, head: Head, each: int) -> list[Tensor]:
    width = head.module.weight.columns
    parts = split(tape, rows, [size * width for size in _sizes(head.rows, each)])
    narrow = [_logits(tape, one, head) for one in parts]
    return [cast(tape, one, FP32) for one in narrow]


def _sizes(rows: int, each: int) -> list[int]:
    return [min(each, rows - start) for start in range(0, rows, each)]


def _logits(tape: Tape, rows: Tensor, head: Head) -> Tensor:
    logits = _linear(tape, rows, head.module)
    if head.caps:
        logits = scale(tape, elementwise(tape, scale(tape, logits), keeps="result"))
    return logits
