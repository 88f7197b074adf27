"""Linear modules: plain, quantised, under autocast, with a low-rank adapter.

Sources: torch/csrc/autograd (mm, addmm), aten/src/ATen/autocast_mode.cpp (`cached_cast`), peft/tuners/lora/layer.py and
bnb.py (0.18), bitsandbytes/autograd/_functions.py (`MatMul4Bit`), torchao 0.10 dtypes/nf4tensor.py
(`get_original_weight`, `LinearNF4`).
"""

from __future__ import annotations

from collections.abc import Sequence

from capienza.predict.training.blocks.dora import dora
from capienza.predict.training.blocks.modules import Adapter, Linear
from capienza.predict.training.operations import FP32, add, add_over, cast, copy, dropout, matmul, scale, weight_cast
from capienza.predict.training.tape import Block, Gradients, Tape, Tensor, Weight, connected

BITS16, INDEX = 2, 8
ABSMAX_BLOCK = 64
"""Elements of a quantised weight that share a constant."""
NESTED = ("nf4_double", "fp4_double")
FOUR_BIT = ("nf4", "fp4", *NESTED)
"""bitsandbytes' formats. Others are unpacked as well, and PEFT adds to their result in place (lora/gptq.py)."""


def linear(tape: Tape, rows: Tensor, module: Linear) -> Tensor:
    """The module's result for each row."""
    if module.adapter is None:
        return base(tape, rows, module)
    if module.weight.quantised is None or module.unpacking == "indexed":
        return _adapted(tape, rows, module, module.adapter)
    return _adapted_quantised(tape, rows, module, module.adapter)


def base(tape: Tape, rows: Tensor, module: Linear) -> Tensor:
    """The module without its adapter."""
    if module.weight.quantised is not None:
        return _quantised(tape, rows, module)
    return functional(tape, rows, module.weight, module.bias)


def functional(tape: Tape, rows: Tensor, weight: Weight, bias: Weight | None = None) -> Tensor:
    """`torch.nn.functional.linear`; under autocast everything comes to its format first."""
    item = tape.autocast or weight.item
    shift = weight_cast(tape, bias, item) if bias is not None else None
    matrix = weight_cast(tape, weight, item)
    rows = cast(tape, rows, item)
    return matmul(tape, rows, matrix, weight.rows, weight.columns, shift)


def _quantised(tape: Tape, rows: Tensor, module: Linear) -> Tensor:
    """Bitsandbytes' Linear4bit: the weight is unpacked for the product, in both directions, and not kept."""
    before = rows.item
    rows = cast(tape, rows, BITS16)
    made = _product(tape, rows, module)
    return cast(tape, made, before)


def _product(tape: Tape, rows: Tensor, module: Linear) -> Tensor:
    weight = module.weight
    count, width = rows.elements // weight.columns, weight.columns
    is_nested = weight.quantised in NESTED and module.unpacking != "indexed"
    constants = weight.elements // ABSMAX_BLOCK if is_nested else 0
    # An attribute of the node, no saved tensor: it goes with the graph, and no checkpoint takes it (`ctx.tensors`).
    attribute = rows.block if module.holds_rows and weight.quantised in FOUR_BIT else None

    def back(_: Gradients, _attribute: Block | None = attribute) -> Sequence[Tensor]:
        held = tape.new(constants, FP32) if constants else None
        unpacked = _unpacked(tape, module)
        held = None
        made = tape.new(count * width, BITS16)
        del unpacked, held
        return (made,)

    node = tape.node((rows,), back)
    first = tape.new(constants, FP32) if constants else None
    second = tape.new(constants, FP32) if constants else None
    unpacked = _unpacked(tape, module)
    made = connected(tape.new(count * weight.rows, BITS16), node)
    del first, second, unpacked
    return made


def _unpacked(tape: Tape, module: Linear) -> Tensor:
    elements = module.weight.elements
    if module.unpacking == "indexed":
        # Two tables of 64-bit indices for the halves of every byte, what they name, and that times its scales.
        tables = [tape.new(elements // 2, size) for size in (INDEX, INDEX, BITS16, BITS16, BITS16, BITS16)]
        made = tape.new(elements, BITS16)
        del tables
        return made
    first = tape.new(elements, BITS16)
    return tape.new(elements, BITS16) if module.unpacking == "copied" else first


def _adapted(tape: Tape, rows: Tensor, module: Linear, adapter: Adapter) -> Tensor:
    made = base(tape, rows, module)
    before = made.item
    rows = cast(tape, rows, adapter.down.item)
    made = add(tape, made, _update(tape, rows, made, module, adapter))
    return cast(tape, made, before)


def _adapted_quantised(tape: Tape, rows: Tensor, module: Linear, adapter: Adapter) -> Tensor:
    made = base(tape, rows, module)
    is_gptq = module.weight.quantised not in FOUR_BIT
    if not is_gptq:
        made = copy(tape, made)
    before = made.item
    if not tape.autocast:
        rows = cast(tape, rows, adapter.down.item)
    update = _update(tape, rows, made, module, adapter)
    if adapter.magnitude is not None:
        made = add(tape, made, update)
        return made if tape.autocast else cast(tape, made, before)
    if not tape.autocast:
        update = cast(tape, update, before)
    return add_over(tape, made, update) if is_gptq else add(tape, made, update)


def _update(tape: Tape, rows: Tensor, result: Tensor, module: Linear, adapter: Adapter) -> Tensor:
    if adapter.magnitude is not None:
        return dora(tape, rows, result, module, adapter)
    if adapter.has_dropout:
        rows = dropout(tape, rows)
    low = functional(tape, rows, adapter.down)
    del rows
    wide = functional(tape, low, adapter.up)
    del low
    return scale(tape, wide)
