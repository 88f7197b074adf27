"""Reinforcement learning with an engine that sleeps while the trainer updates: one update, and the engine beside it.

Legend: G completions of one update, b of them a microbatch, V vocabulary, h hidden size, c rows of the head's chunk.
    scoring   2 G rows in passes of b without gradients: once with the actor's adapter, once with the reference's
    head      the last rows times the head, c rows at a time: 2 c V; going back one more in fp32, 4 c V
    update    for each microbatch: forward, backward (with checkpointing), one step of AdamW; the states come with
              the first step, gradients go after each
    resident  the base once, in 16 bits; actor and reference adapters in fp32; the trainer's base comes back to the GPU
              for the update and waits in main memory while the engine writes
    asleep    what the engine's process holds without weights and cache: the CUDA context, libraries and handles, ten
              rows of logits in fp32 for each sequence beyond the first few, and for experts two buffers of
              top_k max(2 I, h) elements for each token of the largest step
    awake     the share of the card that the engine was given, less the part of its largest step that no real step
              needs; context and libraries stand outside of that share
The largest step is min(s L, max(L, 8192 s)) tokens for s sequences of L. Its tokens need 6 I + 2 h bytes each at most
(gate, up and their product; the residual rows), or 16 h with experts (queries, keys, values, results).
Sources: AgileRL 2.8 (algorithms/grpo.py, core/llm_ops/fused_logprobs.py, memory/README.md: the order of an update, its
chunks, contexts and libraries as NVML measured them); vLLM 0.23 (workspaces of fused_moe); peft 0.19 (adapters of
16-bit bases in fp32).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.allocator.events import Event as AllocatorEvent
from capienza.allocator.replay import replay
from capienza.architecture.model import Architecture
from capienza.errors import InputError, template
from capienza.predict.training.base import base_of
from capienza.predict.training.blocks.build import ITEM, Builder
from capienza.predict.training.blocks.decoder import Decoder, stack
from capienza.predict.training.runtime import WORKSPACE_BYTES, WORKSPACES
from capienza.predict.training.tape import (
    ALLOCATED,
    FREED,
    LOGITS,
    SEGMENT,
    WORKING,
    Event,
    Gradients,
    Leaf,
    Tape,
    Tensor,
    backward,
    connected,
)
from capienza.predict.training.trained import Trained, trained_tensors
from capienza.recipe.recipe import Recipe
from capienza.units import MIB

CHUNK_BYTES, LEAST_ROWS, MOST_ROWS = 256 * MIB, 128, 4096
PASSES_SHOWN, UPDATES_SHOWN = 3, 3
"""More of them repeat what these do."""
ADAPTERS_RESIDENT = 2
LOGIT_ROWS_ASLEEP, FEW_SEQUENCES = 10, 4
STEP_TOKENS = 8192
OUTSIDE_MIB = {"A100": (501, 723, 713), "L4": (226, 687, 660)}
"""CUDA's context, and what libraries and handles hold beside it: while the engine sleeps, and while it writes."""
NOT_MEASURED = template(
    "training.outside-not-measured",
    "what lies outside PyTorch beside an engine was measured on {accepted}, not on {gpu}",
    "measure the run on that card",
)
NOTHING_TRAINED = template(
    "training.update-without-gradient",
    "no module that the loss passes through is trained: targets are {targets}",
    "name modules of the model as targets, such as all-linear",
)
FP32, HALF = 4, 2
MOST_SLACK = 1.03
"""Where a plain view stands for a model, the order of its blocks is not the model's: what they leave unused is bounded
by what the other models leave."""


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """One update, above what the engine holds asleep."""

    allocated_bytes: int
    reserved_bytes: int
    phases: dict[str, int]
    """The most that was reserved by the end of each phase."""


def chunk_rows(vocab: int) -> int:
    """Rows of the head's chunk: 256 MiB of logits in fp32."""
    return int(max(LEAST_ROWS, min(MOST_ROWS, CHUNK_BYTES // (FP32 * vocab))))


def update(architecture: Architecture, recipe: Recipe) -> Update:
    """The update of a recipe whose preference says how many completions it has.

    Raises `InputError` for what no block covers.
    """
    try:
        events, phases = update_events(architecture, recipe)
        most = None
    except InputError:
        plain = plain_view(architecture)
        if plain.parameters == architecture.parameters:
            raise
        events, phases = update_events(plain, recipe)
        most = MOST_SLACK
    found = replay(events, phases=phases)
    allocated, reserved = found.peaks.allocated_bytes, found.peaks.reserved_bytes
    return Update(
        allocated_bytes=allocated,
        reserved_bytes=reserved if most is None else min(reserved, int(most * allocated)),
        phases={span.name: span.reserved_bytes for span in found.phases if span.name},
    )


def update_events(architecture: Architecture, recipe: Recipe) -> tuple[list[AllocatorEvent], list[str]]:
    """The allocator's events of one update, what is resident first, and the names of its phases."""
    trained = trained_tensors(architecture, recipe)
    resident = [base_of(architecture, recipe).total_bytes]
    if recipe.precision.quantised is None:
        resident = [one.elements * ITEM[recipe.precision.base] for one in architecture.parameters]
    resident += [size for size in _sizes(trained) for _ in range(ADAPTERS_RESIDENT)]
    resident += [WORKSPACE_BYTES] * WORKSPACES
    tape, phases = _walked(architecture, recipe, trained), list[str]()
    made: list[AllocatorEvent] = []
    for code, block, size, _ in tape:
        if code == ALLOCATED:
            made.append((ALLOC, block, size, 0))
        elif code == FREED:
            made.append((FREE, block, 0, 0))
        elif code == SEGMENT and isinstance(block, str):
            phases.append(block)
            made.append((MARK, len(phases) - 1, 0, 0))
    first = 1 + max((event[1] for event in made), default=0)
    return [(ALLOC, first + place, size, 0) for place, size in enumerate(resident)] + made, phases


def plain_view(architecture: Architecture) -> Architecture:
    """A model whose layers the blocks cover, of one with inputs of its own for each layer (Gemma 4).

    What enters beside the residual rows is left out; layers that read the keys of another one get keys of their own.
    """
    kept = [one for one in architecture.parameters if one.layer is None or "per_layer" not in one.name]
    layers = []
    for layer in architecture.layers:
        attention = layer.attention
        own = [one for one in kept if one.layer == layer.index]
        query = next((one for one in own if one.name.endswith("q_proj.weight")), None)
        if attention is None or query is None or any(one.name.endswith("k_proj.weight") for one in own):
            layers.append(layer)
            continue
        for name in ("k_proj", "v_proj"):
            shape = (attention.num_key_value_heads * attention.key_head_dim, query.shape[1])
            kept.append(msgspec.structs.replace(query, name=query.name.replace("q_proj", name), shape=shape))
        layers.append(layer)
    return msgspec.structs.replace(architecture, parameters=tuple(kept), layers=tuple(layers))


def _sizes(trained: tuple[Trained, ...]) -> list[int]:
    return [one.elements * one.bytes_per_element for one in trained for _ in range(one.count)]


def _walked(architecture: Architecture, recipe: Recipe, trained: tuple[Trained, ...]) -> list[Event]:
    builder = Builder(architecture, recipe)
    model = builder.decoder(list(range(len(architecture.layers))))
    tape = Tape(ITEM[recipe.precision.autocast] if recipe.precision.autocast else None)
    vocab, total = architecture.vocab_size, recipe.preference.group if recipe.preference else recipe.microbatch
    microbatches = -(-total // recipe.microbatch)
    tape.segment("forward")
    kept = [_scored(tape, model, vocab) for _ in range(min(2 * microbatches, PASSES_SHOWN))]
    states: list[Tensor] = []
    for _ in range(min(microbatches, UPDATES_SHOWN)):
        tape.segment("forward")
        made, item = _logprobs(tape, model, vocab)
        if made.edge is None or not trained:
            targets = recipe.adapters.targets if recipe.adapters else ()
            raise InputError(NOTHING_TRAINED(targets=", ".join(targets)[:80] or "-"))
        tape.segment("backward")
        tape.kind = WORKING
        backward(tape, made.edge, tape.new(model.batch * model.tokens, item), tape.bounds)
        del made
        tape.kind, tape.bounds = 0, []
        tape.segment("optimizer_step")
        if not states:
            states = [tape.new(size, 1) for size in _sizes(trained) for _ in range(2)]
        roots = [tape.new(size, 1) for size in _sizes(trained)]
        del roots
        _forget_gradients(model)
    events = list(tape.events)
    del kept, states
    return events


def _scored(tape: Tape, model: Decoder, vocab: int) -> Tensor:
    with tape.no_grad():
        with tape.autocasting():
            rows = stack(tape, model)
        made = _scores(tape, model, vocab, rows.item)
        del rows
    return made


def _logprobs(tape: Tape, model: Decoder, vocab: int) -> tuple[Tensor, int]:
    """The forward pass to the log-probabilities, and the bytes of one of them."""
    width, count = model.head.module.weight.columns, model.batch * (model.tokens - 1)
    with tape.autocasting():
        rows = stack(tape, model)
    item, logit = rows.item, _logit_item(model, rows.item)
    made = _scores(tape, model, vocab, item)

    def back(_: Gradients) -> tuple[Tensor]:
        flat = tape.new(count * width, item) if model.batch > 1 else None
        given = tape.new(count * width, item)
        _chunks(tape, count, vocab, logit, wide=True)
        del flat
        whole = tape.new(model.batch * model.tokens * width, item)
        del given
        return (whole,)

    return connected(made, tape.node((rows,), back, rows)), item


def _logit_item(model: Decoder, item: int) -> int:
    """Bytes of a logit: rows and head meet in the wider of their formats, outside of autocast."""
    return max(item, model.head.module.weight.item)


def _scores(tape: Tape, model: Decoder, vocab: int, item: int) -> Tensor:
    """One number for each token but the last; rows without their last token are copied to lie in one piece."""
    count = model.batch * (model.tokens - 1)
    flat = tape.new(count * model.head.module.weight.columns, item) if model.batch > 1 else None
    made = tape.new(count, item)
    _chunks(tape, count, vocab, _logit_item(model, item), wide=False)
    del flat
    return made


def _chunks(tape: Tape, count: int, vocab: int, item: int, *, wide: bool) -> None:
    rows = chunk_rows(vocab)
    for first in range(0, count, rows):
        size = min(rows, count - first) * vocab
        logits = tape.new(size, item, LOGITS)
        second = tape.new(size, FP32, LOGITS) if wide else None
        del logits, second


def _forget_gradients(model: object) -> None:
    """`zero_grad(set_to_none=True)` of every leaf of the model."""
    if isinstance(model, Leaf):
        model.gradient = None
        return
    names: Sequence[str] = getattr(model, "__struct_fields__", ()) or getattr(model, "__slots__", ())
    for name in names:
        one = getattr(model, name)
        for part in one if isinstance(one, tuple) else (one,):
            if isinstance(part, Leaf | msgspec.Struct) or hasattr(part, "leaf"):
                _forget_gradients(part)


def step_tokens(sequences: int, length: int) -> int:
    """Tokens of the largest step that the engine prepares for."""
    return min(sequences * length, max(length, STEP_TOKENS * sequences))


def outside_bytes(gpu: str, *, is_asleep: bool, with_context: bool = True) -> int:
    """The context and the libraries of a card, as measured. Raises `InputError` for another card."""
    words = re.split(r"[^a-z0-9]+", gpu.casefold())
    found = next((one for name, one in OUTSIDE_MIB.items() if name.casefold() in words), None)
    if found is None:
        raise InputError(NOT_MEASURED(accepted=tuple(OUTSIDE_MIB), gpu=gpu[:40] or "-"))
    context, asleep, awake = found
    return int(((context if with_context else 0) + (asleep if is_asleep else awake)) * MIB)


def asleep_bytes(architecture: Architecture, gpu: str, sequences: int, length: int) -> int:
    """What the device counts while the engine sleeps and the trainer's base waits in main memory."""
    held = outside_bytes(gpu, is_asleep=True)
    held += LOGIT_ROWS_ASLEEP * FP32 * architecture.vocab_size * max(0, sequences - FEW_SEQUENCES)
    width, experts = _width(architecture)
    if experts:
        held += 2 * step_tokens(sequences, length) * experts * max(2 * width, architecture.hidden_size) * HALF
    return held


def awake_bytes(
    architecture: Architecture, gpu: str, total_bytes: int, share: float, sequences: int, length: int, prompt: int
) -> int:
    """What the device counts while the engine writes; the prompt that all sequences share is read once."""
    width, experts = _width(architecture)
    each = 16 * architecture.hidden_size if experts else 6 * width + 2 * architecture.hidden_size
    unused = max(0, step_tokens(sequences, length) - prompt)
    return int(share * total_bytes) - unused * each + outside_bytes(gpu, is_asleep=False)


def _width(architecture: Architecture) -> tuple[int, int]:
    """The widest feed-forward part, and the experts that one token visits."""
    parts = [layer.mlp for layer in architecture.layers if layer.mlp is not None]
    width = max((part.intermediate_size for part in parts), default=0)
    return width, max((part.num_experts_per_token for part in parts if part.kind == "experts"), default=0)
