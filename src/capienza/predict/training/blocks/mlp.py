"""The feed-forward part of a layer."""

from __future__ import annotations

import msgspec

from capienza.predict.training.blocks.linear import linear
from capienza.predict.training.blocks.modules import Linear
from capienza.predict.training.operations import add, elementwise, fused_product, multiply, power, scale, shift, split
from capienza.predict.training.tape import Tape, Tensor


class Mlp(msgspec.Struct, frozen=True):
    """`gate` None: no gate. `is_joined`: gate and up are one matrix, in `up`. `is_fused`: one kernel multiplies."""

    gate: Linear | None
    up: Linear
    down: Linear
    activation: str
    is_joined: bool = False
    is_fused: bool = False


def mlp(tape: Tape, rows: Tensor, module: Mlp) -> Tensor:
    """Rows in, rows out."""
    if module.is_joined:
        return _joined(tape, rows, module)
    if module.is_fused and module.gate is not None:
        return linear(
            tape, fused_product(tape, linear(tape, rows, module.gate), linear(tape, rows, module.up)), module.down
        )
    if module.gate is None:
        rows = linear(tape, rows, module.up)
        rows = activated(tape, rows, module.activation)
        return linear(tape, rows, module.down)
    return linear(
        tape,
        multiply(
            tape,
            activated(tape, linear(tape, rows, module.gate), module.activation),
            linear(tape, rows, module.up),
        ),
        module.down,
    )


def _joined(tape: Tape, rows: Tensor, module: Mlp) -> Tensor:
    both = linear(tape, rows, module.up)
    gate, both = split(tape, both, [both.elements // 2] * 2)
    both = multiply(tape, both, activated(tape, gate, module.activation))
    return linear(tape, both, module.down)


def activated(tape: Tape, rows: Tensor, name: str) -> Tensor:
    """The activation: one operation that keeps its input, or several."""
    if name == "gelu_new":
        return _gelu_new(tape, rows)
    if name == "relu2":
        return power(tape, elementwise(tape, rows, keeps="result"))
    return elementwise(tape, rows, keeps="input")


def _gelu_new(tape: Tape, rows: Tensor) -> Tensor:
    """`0.5 * x * (1 + tanh(a * (x + b * x³)))`, written out (activations.py)."""
    half = scale(tape, rows)
    cubed = _sum_with_cube(tape, rows)
    return multiply(tape, half, cubed)


def _sum_with_cube(tape: Tape, rows: Tensor) -> Tensor:
    inner = scale(tape, add(tape, rows, scale(tape, power(tape, rows))))
    inner = elementwise(tape, inner, keeps="result")
    return shift(tape, inner)
