"""A decoder as a program: embedding, layers, last norm, head, loss (modeling_llama.py of transformers 5.24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from capienza.predict.training.blocks import litgpt
from capienza.predict.training.blocks.attention import Attention, attention
from capienza.predict.training.blocks.experts import Experts, experts
from capienza.predict.training.blocks.loss import Head, chunked, loss_of, outputs_of, pieces_of
from capienza.predict.training.blocks.mlp import Mlp, mlp
from capienza.predict.training.blocks.modules import Norm
from capienza.predict.training.blocks.norm import norm
from capienza.predict.training.offload import checkpoint_offloaded
from capienza.predict.training.operations import FP32, add, dropout, scale
from capienza.predict.training.parallel.selective import checkpoint_selectively
from capienza.predict.training.tape import (
    LOGITS,
    Tape,
    Tensor,
    Weight,
    checkpoint,
    checkpoint_reentrant,
    connected,
)


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One block: norms before and after attention and feed-forward part, each perhaps absent.

    `is_parallel`: both parts read the same rows. `held`: results (norm, attention) that have names of their own, which
    last to the end of the block. `scales_residual`: what a part adds is multiplied by a number. `is_litgpt`: it is
    written as LitGPT writes it.
    """

    before_attention: Norm | None
    attention: Attention
    after_attention: Norm | None = None
    before_mlp: Norm | None = None
    mlp: Mlp | Experts
    after_mlp: Norm | None = None
    is_parallel: bool = False
    held: frozenset[str] = frozenset()
    scales_residual: bool = False
    has_dropout: bool = False
    is_litgpt: bool = False


class Decoder(msgspec.Struct, frozen=True, kw_only=True):
    """A whole model, and the sizes of one forward pass.

    `entry_wants_gradient`: a hook makes the embedding's result ask for one (PEFT's `enable_input_require_grads`).
    `cache_width`: elements of a token in a layer that a cache of keys and values keeps until the model returns.
    `is_cached_late`: that of all layers comes in one piece, where the loss begins.
    `converted_width`: elements of a token in all layers of the cache that the outputs bring out of it, in fp32.
    """

    embedding: Weight
    positions: Weight | None
    layers: tuple[Layer, ...]
    last: Norm | None
    head: Head
    batch: int
    tokens: int
    checkpointing: str
    entry_wants_gradient: bool
    scales: frozenset[str]
    has_dropout: bool
    cache_width: int = 0
    cache_item: int = 2
    is_cached_late: bool = False
    converted_width: int = 0


CHECKPOINTS = {
    "full": checkpoint,
    "reentrant": checkpoint_reentrant,
    "offload": checkpoint_offloaded,
    "selective": checkpoint_selectively,
}

CACHE = "cache"
"""The name that the loop holds a cache by until the model has returned (`Tape.names`)."""
Given: TypeAlias = "tuple[tuple[Tensor, Tensor] | None, Tensor | None]"
"""Positions and mask, which every layer gets."""
Held: TypeAlias = Callable[[Tensor], None]
"""Takes rows that the program gives back beside its result."""


def layer(tape: Tape, rows: Tensor, module: Layer, positions: tuple[Tensor, Tensor] | None) -> Tensor:
    """One block."""
    if module.is_litgpt:
        return litgpt.block(tape, rows, module)
    if module.is_parallel:
        return _parallel(tape, rows, module, positions)
    residual = rows
    if module.before_attention is not None:
        rows = norm(tape, rows, module.before_attention)
    held = [rows] if "norm" in module.held else []
    rows = attention(tape, rows, module.attention, positions)
    if "attention" in module.held:
        held.append(rows)
    rows = _added(tape, residual, rows, module.after_attention, module)
    residual = rows
    if module.before_mlp is not None:
        rows = norm(tape, rows, module.before_mlp)
    rows = _fed_forward(tape, rows, module.mlp)
    if module.has_dropout:
        rows = dropout(tape, rows)
    return _added(tape, residual, rows, module.after_mlp, module)


def _fed_forward(tape: Tape, rows: Tensor, module: Mlp | Experts) -> Tensor:
    return experts(tape, rows, module) if isinstance(module, Experts) else mlp(tape, rows, module)


def _added(tape: Tape, residual: Tensor, rows: Tensor, after: Norm | None, module: Layer) -> Tensor:
    if after is not None:
        rows = norm(tape, rows, after)
    return add(tape, residual, scale(tape, rows) if module.scales_residual else rows)


def _parallel(tape: Tape, rows: Tensor, module: Layer, positions: tuple[Tensor, Tensor] | None) -> Tensor:
    """Attention and feed-forward part side by side."""
    residual = rows
    assert module.before_attention is not None
    rows = norm(tape, rows, module.before_attention)
    seen = attention(tape, rows, module.attention, positions)
    if module.before_mlp is not None:
        rows = norm(tape, residual, module.before_mlp)
    rows = _fed_forward(tape, rows, module.mlp)
    if module.has_dropout:
        rows = dropout(tape, rows)
    return add(tape, add(tape, residual, seen), rows)


def stack(tape: Tape, model: Decoder, phase: str = "forward", held: Held | None = None) -> Tensor:
    """Embedding, layers and last norm; `held` is given what goes into every layer. `phase` names the segments."""
    entry = embedded(tape, model)
    rows = entry
    if held is not None:
        held(rows)
    numbers = tape.new(model.tokens, 8)
    positions, mask = _positions(tape, model, rows.item), _mask(tape, model, rows.item)
    tape.bound(("backward", "entry"))
    for place, module in enumerate(model.layers):
        tape.segment((phase, place))
        rows = _run(tape, rows, module, (positions, mask), model.checkpointing)
        if held is not None:
            held(rows)
        tape.bound(("backward", place))
    tape.segment((phase, "last"))
    if model.last is not None:
        rows = norm(tape, rows, model.last)
    del entry, numbers, mask
    return rows


def _run(tape: Tape, rows: Tensor, module: Layer, given: Given, kind: str) -> Tensor:
    # What is given with the rows, the mask too, lasts as long as the call may be repeated.
    call: Callable[[Tensor], Tensor] = lambda entry: layer(tape, entry, module, given[0])  # noqa: E731
    if kind == "none":
        return call(rows)
    return CHECKPOINTS[kind](tape, call, rows)


def _positions(tape: Tape, model: Decoder, item: int) -> tuple[Tensor, Tensor] | None:
    """Cosine and sine of every position, in the format of the rows."""
    first = model.layers[0].attention
    if first.rotary in ("none", "paired") or model.layers[0].is_litgpt:
        return None
    size = int(model.tokens * first.shape.head * first.rotary_share)
    angles = tape.new(size // 2, FP32), tape.new(size, FP32)
    wide = tape.new(size, FP32), tape.new(size, FP32)
    if item == FP32 or "positions" in first.rotary_fp32:
        del angles
        return wide
    made = tape.new(size, item), tape.new(size, item)
    del angles, wide
    return made


def _mask(tape: Tape, model: Decoder, item: int) -> Tensor | None:
    """Which scores count: for eager attention as numbers to be added, for a window of SDPA as truth values."""
    size = model.tokens**2
    shapes = [one.attention.shape for one in model.layers]
    if shapes[0].implementation == "eager":
        seen = tape.new(size, 1), tape.new(size, 1)
        made = tape.new(size, item)
        del seen
        return made
    if any(one.has_mask and one.implementation == "sdpa" for one in shapes):
        seen = tape.new(size, 1), tape.new(size, 1)
        made = tape.new(size, 1)
        del seen
        return made
    return None


def embedded(tape: Tape, model: Decoder) -> Tensor:
    """A row of the table for each token, and one for its position; the gradient is a whole table."""
    made = _looked_up(tape, model.embedding, model.batch * model.tokens)
    if "table" in model.scales:
        made = scale(tape, made)
    if model.entry_wants_gradient and made.edge is None and tape.grad:
        # A leaf of the graph is held by it.
        made = connected(made, tape.node((Weight(1, 1, made.item, True).tensor,), lambda _: (None,), made))
    if "embedding" in model.scales:
        made = scale(tape, made)
    if model.positions is not None:
        made = add(tape, made, _looked_up(tape, model.positions, model.tokens))
    return dropout(tape, made) if model.has_dropout else made


def _looked_up(tape: Tape, table: Weight, rows: int) -> Tensor:
    size, item = table.elements, table.item
    node = tape.node((table.tensor,), lambda _: (tape.new(size, item),))
    return connected(tape.new(rows * table.columns, item), node)


def losses_of(tape: Tape, model: Decoder) -> tuple[Tensor, Tensor | None]:
    """The whole forward pass: the loss, and what of the logits the caller goes on holding."""
    held: list[Tensor] = []
    tape.names[CACHE] = held

    cache = model.batch * model.tokens * model.cache_width if tape.grad else 0

    def cached(_: Tensor) -> None:
        # What goes into the first layer has no cache.
        held.append(tape.new(cache if held else 0, model.cache_item))

    rows = stack(tape, model, held=cached if cache and not model.is_cached_late else None)
    tape.segment(("forward", "loss"))
    if cache and model.is_cached_late:
        held.append(tape.new(cache * len(model.layers), model.cache_item))
    kind, tape.kind = tape.kind, LOGITS
    made: tuple[Tensor, Tensor | None]
    if model.layers[0].is_litgpt:
        made = litgpt.loss_of(tape, rows, model.head)
    elif model.head.kind == "chunked":
        pieces = pieces_of(tape, rows, model.head)
        del rows  # the model has returned
        made = chunked(tape, pieces, model.head), None
    else:
        loss, logits = loss_of(tape, rows, model.head)
        del rows
        converted = model.batch * model.tokens * model.converted_width if tape.grad else 0
        made = loss, outputs_of(tape, logits, model.head, converted) if logits is not None else None
    tape.kind = kind
    return made
