"""Experts of which each token sees a few.

Since transformers 5 as grouped products (integrations/moe.py): every token's row is there once for each expert that it
sees, so no size depends on where the router sends what. Up to 4 each expert ran by itself over its own rows, as many as
any other's if the router is balanced (modeling_mixtral.py of 4.48).
"""

from __future__ import annotations

import msgspec

from capienza.predict.training.blocks.linear import BITS16, base, functional
from capienza.predict.training.blocks.mlp import activated
from capienza.predict.training.blocks.modules import Linear
from capienza.predict.training.blocks.products import softmax
from capienza.predict.training.operations import FP32, add_over, cast, copy, multiply, part, split, weight_cast
from capienza.predict.training.tape import Gradients, Results, Tape, Tensor, Weight, connected


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """`chosen` of all experts for a token. `up` holds gate and up side by side; sizes of one expert.

    `wide_shares`: what each expert counts for stays in fp32. `loop`: how many run one after the other, 0 for none.
    """

    router: Weight
    up: Weight
    down: Weight
    chosen: int
    hidden: int
    inner: int
    activation: str
    wide_shares: bool
    loop: int = 0


def experts(tape: Tape, rows: Tensor, module: Experts) -> Tensor:
    """Rows in, rows out."""
    tokens = rows.elements // module.hidden
    shares = _routed(tape, rows, module, tokens)
    if not module.wide_shares:
        shares = cast(tape, shares, rows.item)
    if module.loop:
        return _one_by_one(tape, rows, cast(tape, shares, rows.item), module, tokens)
    picked = _picked(tape, rows, tokens * module.chosen * module.hidden)
    made = _grouped(tape, _inner(tape, picked, module, tokens), module.down, tokens * module.chosen, module.hidden)
    return _joined(tape, multiply(tape, made, shares), rows)


def _inner(tape: Tape, picked: Tensor, module: Experts, tokens: int) -> Tensor:
    both = _grouped(tape, picked, module.up, tokens * module.chosen, 2 * module.inner)
    gate, up = split(tape, both, [both.elements // 2] * 2)
    del both
    return multiply(tape, activated(tape, gate, module.activation), up)


def _one_by_one(tape: Tape, rows: Tensor, shares: Tensor, module: Experts, tokens: int) -> Tensor:
    total = tape.new(rows.elements, rows.item)
    count = tokens * module.chosen // module.loop
    for _ in range(module.loop):
        picked = _picked(tape, rows, count * module.hidden)
        made = multiply(tape, _single(tape, picked, module), part(tape, shares, count))
        total = add_over(tape, total, _taken(tape, made))
    return total


def _single(tape: Tape, picked: Tensor, module: Experts) -> Tensor:
    half, down = _share(module.up, 2 * module.loop), _share(module.down, module.loop)
    gate = activated(tape, base(tape, picked, half), module.activation)
    return base(tape, multiply(tape, gate, base(tape, picked, half)), down)


def _share(weight: Weight, count: int) -> Linear:
    """One expert's matrix, frozen or trained as all are."""
    one = Weight(weight.rows // count, weight.columns, weight.item, weight.leaf is not None, weight.quantised)
    return Linear(one)


def _taken(tape: Tape, rows: Tensor) -> Tensor:
    """Rows on their way into a sum: their gradient is picked out of the sum's."""
    elements, item = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(elements, item),))
    return connected(Tensor(elements, item, rows.block), node) if node is not None else rows


def _routed(tape: Tape, rows: Tensor, module: Experts, tokens: int) -> Tensor:
    """What each chosen expert's result counts for, in fp32."""
    scores = softmax(tape, functional(tape, rows, module.router))
    all_of = scores.elements
    node = tape.node((scores,), lambda _: (tape.new(all_of, FP32),))
    best = connected(tape.new(tokens * module.chosen, FP32), node)
    return copy(tape, best)


def _picked(tape: Tape, rows: Tensor, elements: int) -> Tensor:
    """Rows by their number; the gradient is put back into zeros, and those into a copy."""
    count, item = rows.elements, rows.item

    def back(_: Gradients) -> Results:
        zeros = tape.new(count, item)
        made = tape.new(count, item)
        del zeros
        return (made,)

    order = tape.new(elements // max(count, 1) * 8, 1)
    node = tape.node((rows,), back, order)
    return connected(tape.new(elements, item), node)


def _grouped(tape: Tape, rows: Tensor, weight: Weight, count: int, columns: int) -> Tensor:
    item = tape.autocast or (BITS16 if weight.quantised else weight.item)
    matrix = weight_cast(tape, weight, item) if weight.quantised is None else Tensor(weight.elements, item, None)
    rows = cast(tape, rows, item)
    wants = [rows.edge is not None, matrix.edge is not None]
    sizes = (rows.elements, weight.elements)

    def back(_: Gradients) -> Results:
        made: list[Tensor | None] = [None, None]
        for place in (1, 0):
            if wants[place]:
                made[place] = tape.new(sizes[place], item)
        return made

    node = tape.node((rows, matrix), back, matrix if wants[0] else None, rows if wants[1] else None)
    return connected(tape.new(count * columns, item), node)


def _joined(tape: Tape, weighted: Tensor, rows: Tensor) -> Tensor:
    """The results of a token's experts, in its place and summed."""
    whole, wide, item = weighted.elements, weighted.item, rows.item

    def back(_: Gradients) -> Results:
        spread = tape.new(whole, wide)
        zeros = tape.new(whole, wide)
        made = tape.new(whole, wide)
        del zeros, spread
        return (made,)

    node = tape.node((weighted,), back)
    ordered = connected(tape.new(whole, wide), node)
    del weighted
    summed = connected(tape.new(rows.elements, wide), node)
    made = cast(tape, summed, item)
    del ordered
    return made
