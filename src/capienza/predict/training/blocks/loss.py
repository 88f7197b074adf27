"""From the last rows to the loss, by implementation."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.predict.training.operations import FP32, cast
from capienza.predict.training.tape import Gradients, Tape, Tensor, connected


def cross_entropy(tape: Tape, logits: Tensor, rows: int) -> Tensor:
    """`torch.nn.functional.cross_entropy`: the logarithm of the probabilities is kept."""
    count, item = logits.elements, logits.item
    labels = tape.new(rows + 1, 8)
    node = tape.node((logits,), lambda _: (tape.new(count, item),))
    chances = connected(tape.new(count, item), node)
    tape.keep(node, chances)
    node = tape.node((chances,), lambda _: (tape.new(count, item),), chances, labels)
    loss = connected(tape.new(1, FP32), node)
    weight = tape.new(1, FP32)
    tape.keep(node, weight)
    return loss


def full(tape: Tape, logits: Tensor, rows: int) -> Tensor:
    """transformers' ForCausalLMLoss: all logits in fp32 (loss_utils.py, 5.24)."""
    wide = cast(tape, logits, FP32)
    loss = cross_entropy(tape, wide, rows)
    return _divided(tape, loss)


def _divided(tape: Tape, loss: Tensor) -> Tensor:
    def back(_: Gradients) -> Sequence[Tensor]:
        return (tape.new(1, FP32),)

    node = tape.node((loss,), back)
    return connected(tape.new(1, FP32), node)
