"""The loss of a model that makes it itself: the closed form beside PyTorch's dispatcher in the trace."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from capienza.predict.training.blocks.loss import cross_entropy
from capienza.predict.training.operations import FP32, cast, copy
from capienza.predict.training.tape import ALLOCATED, FREED, Tape, Weight, backward
from capienza.trace import predict_peak

pytestmark = pytest.mark.oracle
ROWS, VOCABULARY = 1024, 8192
BASE = ROWS * VOCABULARY * 2


def traced(*, upcasts: bool, copies: bool, autocasts: bool) -> int:
    """The most above the logits, which are there before."""

    def build() -> Any:
        return torch.zeros(ROWS, VOCABULARY, dtype=torch.bfloat16, device="cuda", requires_grad=True)

    def step(logits: Any) -> None:
        labels = torch.zeros(ROWS, dtype=torch.long, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocasts):
            seen = logits.float() if upcasts else logits
            seen = seen.clone() if copies else seen
            loss = torch.nn.functional.cross_entropy(seen, labels)
            del seen
        torch.autograd.backward(loss)

    return predict_peak(build, step, device="A100", steps=1).gpus[0].allocated_bytes - BASE


def walked(*, upcasts: bool, copies: bool, autocasts: bool) -> int:
    """The same by the closed form."""
    tape = Tape(2 if autocasts else None)
    with tape.autocasting():
        seen = Weight(ROWS, VOCABULARY, 2, True).tensor
        seen = cast(tape, seen, FP32) if upcasts else seen
        seen = copy(tape, seen) if copies else seen
        loss = cross_entropy(tape, seen, ROWS)
        del seen
    edge = loss.edge
    assert edge is not None
    backward(tape, edge, tape.new(1, FP32), [])
    level, most, sizes = 0, 0, {}
    for code, block, size, _ in tape.events:
        if code == ALLOCATED:
            sizes[block] = size
            level += size
        elif code == FREED:
            level -= sizes.pop(block)
        most = max(most, level)
    return most


@pytest.mark.parametrize("autocasts", [False, True])
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("upcasts", [False, True])
def test_the_loss_holds_what_pytorch_holds(upcasts: bool, copies: bool, autocasts: bool) -> None:
    """Labels and single numbers aside, which the trace counts from elsewhere."""
    asked = {"upcasts": upcasts, "copies": copies, "autocasts": autocasts}
    assert walked(**asked) == pytest.approx(traced(**asked), rel=0.001)
