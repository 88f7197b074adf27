"""Norms as transformers writes them, operation by operation."""

from __future__ import annotations

from capienza.predict.training.blocks.modules import Norm
from capienza.predict.training.operations import FP32, add, cast, elementwise, mean, multiply, power, shift
from capienza.predict.training.tape import Gradients, Tape, Tensor, connected


def norm(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """Each row normalised."""
    return KINDS[module.kind](tape, rows, module)


def _scaled(tape: Tape, rows: Tensor, width: int) -> Tensor:
    """`x * rsqrt(mean(x²) + eps)`."""
    variance = mean(tape, power(tape, rows), width)
    return multiply(tape, rows, _root(tape, variance))


def _root(tape: Tape, variance: Tensor) -> Tensor:
    return elementwise(tape, shift(tape, variance), keeps="result", temporaries=2)


def _rms(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    before = rows.item
    rows = cast(tape, rows, FP32)
    rows = _scaled(tape, rows, module.width)
    assert module.weight is not None
    return multiply(tape, module.weight.tensor, cast(tape, rows, before), is_weight=True)


def _rms_late(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """The weight is applied before the rows go back to their format (OLMo 2)."""
    before = rows.item
    rows = cast(tape, rows, FP32)
    rows = _scaled(tape, rows, module.width)
    assert module.weight is not None
    return cast(tape, multiply(tape, module.weight.tensor, rows, is_weight=True), before)


def _rms_wide(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """The same with the weight in fp32 (Helium)."""
    before = rows.item
    rows = cast(tape, rows, FP32)
    rows = _scaled(tape, rows, module.width)
    assert module.weight is not None
    return cast(tape, multiply(tape, cast(tape, module.weight.tensor, FP32), rows, is_weight=True), before)


def _rms_plus_one(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """One is added to the weight, in fp32 (Gemma)."""
    made = _scaled(tape, cast(tape, rows, FP32), module.width)
    assert module.weight is not None
    made = multiply(tape, made, shift(tape, cast(tape, module.weight.tensor, FP32)), is_weight=True)
    return cast(tape, made, rows.item)


def _written(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """A layer norm without bias, written out (Cohere)."""
    before = rows.item
    rows = cast(tape, rows, FP32)
    centre = mean(tape, rows, module.width)
    variance = mean(tape, power(tape, add(tape, rows, centre)), module.width)
    rows = multiply(tape, add(tape, rows, centre), _root(tape, variance))
    assert module.weight is not None
    return cast(tape, multiply(tape, cast(tape, module.weight.tensor, FP32), rows, is_weight=True), before)


def _apart(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """A layer norm taken apart, in the rows' format, divided by the root (LLMs-from-scratch, ch04 LayerNorm)."""
    centre = mean(tape, rows, module.width)
    variance = mean(tape, elementwise(tape, rows, keeps="input"), module.width)
    rows = multiply(tape, add(tape, rows, centre), _root(tape, variance))
    assert module.weight is not None
    assert module.bias is not None
    return add(tape, multiply(tape, module.weight.tensor, rows, is_weight=True), module.bias.tensor)


def _layer(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """PyTorch's own: it keeps its input and two numbers a row; autocast takes it to fp32."""
    item = FP32 if tape.autocast else rows.item
    weight = cast(tape, module.weight.tensor, item) if module.weight is not None else None
    bias = cast(tape, module.bias.tensor, item) if module.bias is not None else None
    rows = cast(tape, rows, item)
    return _native(tape, rows, weight, bias, module.width)


def _layer_fp32(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    before = rows.item
    return cast(tape, _native(tape, cast(tape, rows, FP32), None, None, module.width), before)


def _layer_plus_one(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """The weight and one (Nemotron), which casts as autocast does."""
    item = tape.autocast or rows.item
    assert module.weight is not None
    assert module.bias is not None
    weight = shift(tape, module.weight.tensor)
    rows, weight, bias = (cast(tape, one, item) for one in (rows, weight, module.bias.tensor))
    return _native(tape, rows, weight, bias, module.width)


def _native(tape: Tape, rows: Tensor, weight: Tensor | None, bias: Tensor | None, width: int) -> Tensor:
    elements, item, count = rows.elements, rows.item, rows.elements // width
    wants = [one is not None and one.edge is not None for one in (rows, weight, bias)]

    def back(_: Gradients) -> list[Tensor | None]:
        sizes = (elements, width, width)
        return [tape.new(size, item) if wanted else None for size, wanted in zip(sizes, wants, strict=True)]

    node = tape.node((rows, weight, bias), back, rows)
    made = connected(tape.new(elements, item), node)
    centre, root = tape.new(count, FP32), tape.new(count, FP32)
    tape.keep(node, centre, root)
    return made


def _fused(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """One kernel (Liger, unsloth): it keeps its input and a number a row, and writes over the gradient."""
    assert module.weight is not None
    weight = module.weight.tensor
    item, count = weight.item, module.width

    def back(gradients: Gradients) -> list[Tensor | None]:
        return [gradients[0], tape.new(count, item) if weight.edge is not None else None]

    node = tape.node((rows, weight), back, rows)
    made = connected(tape.new(rows.elements, rows.item), node)
    tape.keep(node, tape.new(rows.elements // module.width, FP32))
    return made


KINDS = {
    "fused": _fused,
    "rms": _rms,
    "rms_late": _rms_late,
    "rms_wide": _rms_wide,
    "rms_plus_one": _rms_plus_one,
    "layer": _layer,
    "layer_written": _written,
    "layer_apart": _apart,
    "layer_fp32": _layer_fp32,
    "layer_plus_one": _layer_plus_one,
}
