"""Norms as transformers writes them."""

from __future__ import annotations

from capienza.predict.training.blocks.modules import Norm
from capienza.predict.training.operations import FP32, cast, copy, elementwise, mean, multiply
from capienza.predict.training.tape import Tape, Tensor


def norm(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    """Each row normalised."""
    return _rms(tape, rows, module)


def _rms(tape: Tape, rows: Tensor, module: Norm) -> Tensor:
    before = rows.item
    rows = cast(tape, rows, FP32)
    variance = mean(tape, elementwise(tape, rows, keeps="input", temporaries=2), module.width)
    rows = multiply(tape, rows, elementwise(tape, copy(tape, variance), keeps="result", temporaries=2))
    assert module.weight is not None
    return multiply(tape, module.weight.tensor, cast(tape, rows, before))
