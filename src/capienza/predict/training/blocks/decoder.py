"""A decoder as a program: embedding, layers, last norm, head, loss (modeling_llama.py of transformers 5.24)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from capienza.predict.training.blocks import loss as losses
from capienza.predict.training.blocks.attention import Attention, attention
from capienza.predict.training.blocks.linear import linear
from capienza.predict.training.blocks.mlp import Gated, gated
from capienza.predict.training.blocks.modules import Linear, Norm
from capienza.predict.training.blocks.norm import norm
from capienza.predict.training.operations import FP32, add
from capienza.predict.training.tape import (
    LOGITS,
    Gradients,
    Tape,
    Tensor,
    Weight,
    checkpoint,
    checkpoint_reentrant,
    connected,
)


class Layer(msgspec.Struct, frozen=True):
    """One block: a norm before attention and one before the feed-forward part, perhaps one after each."""

    before_attention: Norm
    attention: Attention
    before_mlp: Norm
    mlp: Gated
    after_attention: Norm | None = None
    after_mlp: Norm | None = None


class Decoder(msgspec.Struct, frozen=True):
    """A whole model, and the sizes of one forward pass."""

    embedding: Weight
    layers: tuple[Layer, ...]
    last: Norm
    head: Linear
    batch: int
    tokens: int
    checkpointing: str
    entry_wants_gradient: bool
    """PEFT's `enable_input_require_grads`: a hook makes the embedding's result ask for one."""


def layer(tape: Tape, rows: Tensor, module: Layer, positions: tuple[Tensor, Tensor]) -> Tensor:
    """One block."""
    residual = rows
    rows = norm(tape, rows, module.before_attention)
    rows = attention(tape, rows, module.attention, positions)
    if module.after_attention is not None:
        rows = norm(tape, rows, module.after_attention)
    rows = add(tape, residual, rows)
    residual = rows
    rows = norm(tape, rows, module.before_mlp)
    rows = gated(tape, rows, module.mlp)
    if module.after_mlp is not None:
        rows = norm(tape, rows, module.after_mlp)
    rows = add(tape, residual, rows)
    return rows


def stack(tape: Tape, model: Decoder) -> Tensor:
    """Embedding, layers and last norm."""
    entry = embedded(tape, model)
    rows = entry
    numbers = tape.new(model.tokens, 8)
    positions = _positions(tape, model, rows.item)
    tape.bound(("backward", "entry"))
    for place, module in enumerate(model.layers):
        tape.segment(("forward", place))
        rows = _run(tape, rows, module, positions, model.checkpointing)
        tape.bound(("backward", place))
    tape.segment(("forward", "last"))
    rows = norm(tape, rows, model.last)
    del entry, numbers
    return rows


def _run(tape: Tape, rows: Tensor, module: Layer, positions: tuple[Tensor, Tensor], kind: str) -> Tensor:
    call: Callable[[Tensor], Tensor] = lambda given: layer(tape, given, module, positions)  # noqa: E731
    if kind == "none":
        return call(rows)
    return (checkpoint_reentrant if kind == "reentrant" else checkpoint)(tape, call, rows)


def _positions(tape: Tape, model: Decoder, item: int) -> tuple[Tensor, Tensor]:
    size = model.tokens * model.layers[0].attention.head
    angles = tape.new(size // 2, FP32), tape.new(size, FP32)
    wide = tape.new(size, FP32), tape.new(size, FP32)
    if item == FP32:
        del angles
        return wide
    made = tape.new(size, item), tape.new(size, item)
    del angles, wide
    return made


def embedded(tape: Tape, model: Decoder) -> Tensor:
    """A row of the table for each token; the gradient is a whole table."""
    table = model.embedding
    width, item = table.columns, table.item
    rows = model.batch * model.tokens

    def back(_: Gradients) -> tuple[Tensor]:
        made = tape.new(table.elements, item)
        return (made,)

    node = tape.node((table.tensor,), back)
    made = connected(tape.new(rows * width, item), node)
    if model.entry_wants_gradient and node is None and tape.grad:
        made = connected(made, tape.node((Weight(1, 1, item, True).tensor,), lambda _: (None,)))
    return made


def losses_of(tape: Tape, model: Decoder) -> Tensor:
    """The whole forward pass, to the loss."""
    rows = stack(tape, model)
    tape.segment(("forward", "loss"))
    kind, tape.kind = tape.kind, LOGITS
    logits = linear(tape, rows, model.head)
    loss = losses.full(tape, logits, model.batch * model.tokens)
    tape.kind = kind
    return loss
