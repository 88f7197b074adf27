"""DoRA's adapter: a low-rank pair, and a length of its own for each result (peft/tuners/lora/dora.py, 0.19 to 0.21).

Legend: W the frozen matrix [out, in], B A the pair's product, m the trained lengths [out], x rows.
    result   W x + (m / |W + B A| - 1) W x + (m / |W + B A|) B A x
B A is made whole, by running the pair over an identity of [in, in]; W comes to the format of the rows, and its sum with
the product is as large once more. The norm takes no gradient, so all of that goes as the module ends. With dropout W x
is computed once more, of the rows that are left: the copy of W is then kept for the backward pass.
"""

from __future__ import annotations

from capienza.predict.training.blocks.modules import Adapter, Linear
from capienza.predict.training.operations import (
    add,
    cast,
    copy,
    dropout,
    elementwise,
    matmul,
    multiply,
    scale,
    shift,
    weight_cast,
)
from capienza.predict.training.tape import Tape, Tensor, Weight

UNPACKED_ITEM = 2
"""Bytes of an element of a quantised matrix that is unpacked."""


def dora(tape: Tape, rows: Tensor, result: Tensor, module: Linear, adapter: Adapter) -> Tensor:
    """What is added to the module's `result`; `rows` are in the format that the pair takes."""
    assert adapter.magnitude is not None
    before = None if adapter.has_dropout and tape.is_training else result
    if before is None:
        rows = dropout(tape, rows)
    held, product, weight = _product(tape, rows.item, module, adapter)
    _norm(tape, weight)
    ratio = elementwise(tape, adapter.magnitude.tensor, keeps="nothing")
    low = _through(tape, rows, adapter.down)
    update = _through(tape, low, adapter.up)
    del low
    if before is None:
        item = tape.autocast or rows.item
        before = matmul(
            tape, cast(tape, rows, item), cast(tape, weight, item), module.weight.rows, module.weight.columns
        )
    elif module.bias is not None:
        before = copy(tape, before)
    first = multiply(tape, shift(tape, ratio), before, is_weight=True)
    second = multiply(tape, ratio, update, is_weight=True)
    del before
    second = scale(tape, second)
    made = add(tape, first, second)
    del held, product, weight
    return made


def _product(tape: Tape, item: int, module: Linear, adapter: Adapter) -> tuple[list[Tensor], Tensor, Tensor]:
    """What the graph of the product holds, the product itself and the frozen matrix, both in the rows' format."""
    width = module.weight.columns
    keeps_graph = tape.grad and (tape.region is None or tape.is_recomputing)
    if tape.autocast:
        # The pair is cast where gradients are asked for, and what autocast remembers of it leads back to it.
        for one in (adapter.down, adapter.up):
            weight_cast(tape, one, tape.autocast)
    with tape.no_grad():
        identity = tape.new(width * width, adapter.down.item)
        seen = cast(tape, identity, tape.autocast or identity.item)
        low = _through(tape, seen, adapter.down)
        product = _through(tape, low, adapter.up)
        held = [seen, low] if keeps_graph else []
        del identity, seen, low
        product = cast(tape, product, item)
        frozen = module.weight
        weight = frozen.tensor
        if frozen.quantised is not None:
            weight = tape.new(frozen.elements, UNPACKED_ITEM)
        weight = cast(tape, Tensor(weight.elements, weight.item, weight.block), item)
    return held, product, weight


def _norm(tape: Tape, weight: Tensor) -> None:
    """The matrix and the product, scaled, added and measured row by row."""
    scaled = tape.new(weight.elements, weight.item)
    added = tape.new(weight.elements, weight.item)
    del scaled, added


def _through(tape: Tape, rows: Tensor, weight: Weight) -> Tensor:
    item = tape.autocast or weight.item
    return matmul(tape, cast(tape, rows, item), weight_cast(tape, weight, item), weight.rows, weight.columns)
