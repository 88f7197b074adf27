"""What the allocator keeps from the device: load and two updates run through it, block by block.

The order is that of a run: weights, adapters, the batch, cuBLAS's workspaces, then twice the passes and the optimizer's
step (the first makes the states). From transformers 4.50 on, a load that quantises takes the memory of all weights once
before. An evaluation is not run: it finds what training left, and takes more where it needs more.
Sources: transformers 5.24 modeling_utils.py caching_allocator_warmup; the allocator's own rules (`allocator`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from capienza.allocator.events import ALLOC, FREE, MARK, Event
from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.architecture.model import Architecture
from capienza.formats.scheme import Scheme
from capienza.ledger.phase import Phase
from capienza.predict.training.base import scheme_of
from capienza.predict.training.entries import ROLLOUT
from capienza.predict.training.load import WARMED_UP_SINCE, load_events
from capienza.predict.training.passes import events
from capienza.predict.training.releases import release
from capienza.predict.training.resident import Resident
from capienza.predict.training.runtime import TOKEN_BYTES, WORKSPACES, batch_tensors
from capienza.predict.training.states import state_parts
from capienza.predict.training.transient import groups
from capienza.recipe.recipe import Recipe

PASSES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD}
PHASES = (
    Phase.LOAD, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP_FIRST, Phase.OPTIMIZER_STEP_STEADY,
)  # fmt: skip


def reserved_bytes(
    architecture: Architecture,
    recipe: Recipe,
    resident: Resident,
    scheme: Scheme | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[Phase, int]:
    """The most that is reserved in each phase; `config` is the model's config.json, where it is known.

    Raises `InputError` for passes that are not covered.
    """
    settings = parse_settings(recipe.allocator) if recipe.allocator else Settings()
    found = replay(_run(architecture, recipe, resident, scheme, config), settings, phases=PHASES)
    highest: dict[Phase, int] = {}
    for span in found.phases:
        phase = Phase(span.name)
        highest[phase] = max(highest.get(phase, 0), span.reserved_bytes)
    after = max(highest.values())
    # TRL empties the cache before it wakes an engine.
    sleeps = recipe.preference is not None and recipe.preference.sleeps
    highest |= dict.fromkeys(ROLLOUT, 0 if sleeps else after)
    return highest | dict.fromkeys((Phase.EVAL, Phase.CHECKPOINT, Phase.EXPORT), after)


def _run(
    architecture: Architecture,
    recipe: Recipe,
    resident: Resident,
    scheme: Scheme | None,
    config: Mapping[str, Any] | None,
) -> Iterator[Event]:
    numbers = itertools.count()
    scheme = scheme_of(recipe, scheme)
    yield _mark(Phase.LOAD)
    if scheme is not None and scheme.method == "bitsandbytes" and release(recipe, "transformers") >= WARMED_UP_SINCE:
        block = next(numbers)
        yield ALLOC, block, resident.base.weights_bytes, 0
        yield FREE, block, 0, 0
    yield from _numbered(load_events(architecture, recipe, scheme), numbers)
    if recipe.preference is not None and recipe.preference.reference == "model":
        yield from _numbered(load_events(architecture, recipe, scheme), numbers)
    yield from _taken(_beside(recipe, resident), numbers)
    walked, names = events(architecture, recipe, config)
    for is_first in (True, False):
        gradients: dict[int, int] = {}
        yield from _pass(walked, names, numbers, gradients)
        yield _mark(Phase.OPTIMIZER_STEP_FIRST if is_first else Phase.OPTIMIZER_STEP_STEADY)
        if is_first:
            yield from _taken(_states(recipe, resident), numbers)
        yield from _step(architecture, recipe, resident, numbers)
        yield from ((FREE, block, 0, 0) for block in gradients.values())


def _mark(phase: Phase) -> Event:
    return MARK, PHASES.index(phase), 0, 0


def _beside(recipe: Recipe, resident: Resident) -> Iterator[int]:
    """What is taken once, before the first pass."""
    for one in resident.trained:
        if one.kind != "whole":
            yield from (one.elements * one.bytes_per_element for _ in range(one.count))
    yield from (TOKEN_BYTES * recipe.rows_tokens for _ in range(batch_tensors(recipe)))
    yield from (resident.workspaces_bytes // WORKSPACES for _ in range(WORKSPACES))


def _states(recipe: Recipe, resident: Resident) -> Iterator[int]:
    parts = state_parts(recipe)
    for one in resident.trained:
        for _ in range(one.count):
            yield from parts(one)


def _step(architecture: Architecture, recipe: Recipe, resident: Resident, numbers: Iterator[int]) -> Iterator[Event]:
    """The temporaries of a step: a list of all tensors, or those of one."""
    amount = resident.transient
    if amount is None or not amount.expected:
        return
    if recipe.optimizer.run != "foreach":
        block = next(numbers)
        yield ALLOC, block, amount.expected, 0
        yield FREE, block, 0, 0
        return
    for group in groups(resident.trained, architecture, recipe):
        taken = []
        for one in group:
            for _ in range(one.count):
                block = next(numbers)
                taken.append(block)
                yield ALLOC, block, one.elements * one.bytes_per_element, 0
        yield from ((FREE, block, 0, 0) for block in taken)


def _pass(walked: list[Event], names: list[str], numbers: Iterator[int], alive: dict[int, int]) -> Iterator[Event]:
    """The events of the passes with numbers of their own; `alive` are at the end the gradients."""
    for code, block, size, stream in walked:
        if code == MARK:
            yield _mark(PASSES[names[block]])
        elif code == ALLOC:
            alive[block] = next(numbers)
            yield code, alive[block], size, stream
        else:
            yield code, alive.pop(block), size, stream


def _numbered(made: Iterator[Event], numbers: Iterator[int]) -> Iterator[Event]:
    alive: dict[int, int] = {}
    for code, block, size, stream in made:
        if code == ALLOC:
            alive[block] = next(numbers)
            yield code, alive[block], size, stream
        else:
            yield code, alive.pop(block), size, stream


def _taken(sizes: Iterator[int], numbers: Iterator[int]) -> Iterator[Event]:
    return ((ALLOC, next(numbers), size, 0) for size in sizes)
