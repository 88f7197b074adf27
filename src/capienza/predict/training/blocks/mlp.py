"""The feed-forward part of a layer."""

from __future__ import annotations

import msgspec

from capienza.predict.training.blocks.linear import linear
from capienza.predict.training.blocks.modules import Linear
from capienza.predict.training.operations import elementwise, multiply
from capienza.predict.training.tape import Tape, Tensor


class Gated(msgspec.Struct, frozen=True):
    """Two products side by side, one through an activation."""

    gate: Linear
    up: Linear
    down: Linear


def gated(tape: Tape, rows: Tensor, module: Gated) -> Tensor:
    """Rows in, rows out."""
    return linear(
        tape,
        multiply(
            tape,
            elementwise(tape, linear(tape, rows, module.gate), keeps="input"),
            linear(tape, rows, module.up),
        ),
        module.down,
    )
