"""What the allocator keeps from the device: load and two updates run through it, block by block.

The order is that of a run: weights, adapters, the batch, cuBLAS's workspaces, then twice the passes and the optimizer's
step (the first makes the states); where rows differ in length, so many updates as show what that leaves (`varied`).
From transformers 4.50 on, a load that quantises takes the memory of all weights once before. An evaluation is not run:
it finds what training left, and takes more where it needs more.
Sources: transformers 5.24 modeling_utils.py caching_allocator_warmup; the allocator's own rules (`allocator`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capienza.allocator.events import ALLOC, FREE, MARK, Event
from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.architecture.model import Architecture
from capienza.formats.scheme import Scheme
from capienza.ledger.phase import Phase
from capienza.predict.training.base import Base, resident_dtype, scheme_of
from capienza.predict.training.entries import ROLLOUT
from capienza.predict.training.load import WARMED_UP_SINCE, load_events
from capienza.predict.training.releases import release
from capienza.predict.training.resident import Resident
from capienza.predict.training.runtime import TOKEN_BYTES, WORKSPACES, batch_tensors
from capienza.predict.training.states import state_parts
from capienza.predict.training.trained import Trained, trained_tensors
from capienza.predict.training.transient import groups
from capienza.predict.training.varied import updates
from capienza.recipe.recipe import Recipe

LOAD, FIRST_STEP, STEADY_STEP = Phase.LOAD, Phase.OPTIMIZER_STEP_FIRST, Phase.OPTIMIZER_STEP_STEADY


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
    run, phases = _run(architecture, recipe, resident, scheme, config)
    found = replay(run, settings, phases=phases)
    highest: dict[Phase, int] = {}
    for span in found.phases:
        phase = Phase(span.name)
        highest[phase] = max(highest.get(phase, 0), span.reserved_bytes)
    after = max(highest.values())
    # A run that outgrows the replay's addresses ends there: what would follow keeps no less.
    highest = dict.fromkeys(map(Phase, phases), after) | highest
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
) -> tuple[list[Event], list[str]]:
    """All events, and the names of the phases that their marks mean."""
    scheme = scheme_of(recipe, scheme)
    walks, phases = updates(architecture, recipe, config)
    marks = {phase: (MARK, len(phases) + place, 0, 0) for place, phase in enumerate((LOAD, FIRST_STEP, STEADY_STEP))}
    trained = trained_tensors(architecture, recipe)
    # Blocks of the passes keep their numbers: the first update's are gone when the second begins.
    most = 1 + max(block for walk in walks for code, block, _, _ in walk if code != MARK)
    numbers = itertools.count(most)
    run: list[Event] = [marks[LOAD]]
    if scheme is not None and scheme.method == "bitsandbytes" and release(recipe, "transformers") >= WARMED_UP_SINCE:
        block = next(numbers)
        run += (ALLOC, block, warm_up_bytes(resident.base, recipe), 0), (FREE, block, 0, 0)
    run += load_events(architecture, recipe, scheme, next(numbers))
    numbers = itertools.count(most + len(run))
    if recipe.preference is not None and recipe.preference.reference == "model":
        run += load_events(architecture, recipe, scheme, next(numbers))
        numbers = itertools.count(most + len(run))
    # What is taken once, after the model is there, is none of the load's.
    run.append((MARK, phases.index(Phase.FORWARD), 0, 0))
    run += _taken(_beside(recipe, resident, trained), numbers)
    for step, walked in zip([FIRST_STEP] + [STEADY_STEP] * len(walks), walks, strict=False):
        run += walked
        run.append(marks[step])
        if step is FIRST_STEP:
            run += _taken(_states(recipe, trained), numbers)
        run += _step(architecture, recipe, resident, trained, numbers)
        run += _left(walked)
    return run, [*phases, *marks]


def warm_up_bytes(base: Base, recipe: Recipe) -> int:
    """What is taken once before a quantised load: codes without their scales, and the rest (`get_total_byte_count`)."""
    codes = base.num_quantised if recipe.precision.quantised == "int8" else base.num_quantised // 2
    return codes + base.num_rest * (4 if resident_dtype(recipe) == "fp32" else 2)


def _left(walked: Sequence[Event]) -> list[Event]:
    """What gives back the blocks that are there at the end: the gradients."""
    alive: dict[int, None] = {}
    for code, block, _, _ in walked:
        if code == ALLOC:
            alive[block] = None
        elif code == FREE:
            del alive[block]
    return [(FREE, block, 0, 0) for block in alive]


def _beside(recipe: Recipe, resident: Resident, trained: Sequence[Trained]) -> Iterator[int]:
    """What is taken once, before the first pass."""
    for one in trained:
        if one.kind != "whole":
            yield from (one.elements * one.bytes_per_element for _ in range(one.count))
    yield from (TOKEN_BYTES * recipe.rows_tokens for _ in range(batch_tensors(recipe)))
    yield from (resident.workspaces_bytes // WORKSPACES for _ in range(WORKSPACES))


def _states(recipe: Recipe, trained: Sequence[Trained]) -> Iterator[int]:
    parts = state_parts(recipe)
    for one in trained:
        for _ in range(one.count):
            yield from parts(one)


def _step(
    architecture: Architecture,
    recipe: Recipe,
    resident: Resident,
    trained: Sequence[Trained],
    numbers: Iterator[int],
) -> Iterator[Event]:
    """The temporaries of a step: a list of all tensors, or those of one."""
    amount = resident.transient
    if amount is None or not amount.expected:
        return
    if recipe.optimizer.run != "foreach":
        block = next(numbers)
        yield ALLOC, block, amount.expected, 0
        yield FREE, block, 0, 0
        return
    for group in groups(trained, architecture, recipe):
        taken = []
        for one in group:
            for _ in range(one.count):
                block = next(numbers)
                taken.append(block)
                yield ALLOC, block, one.elements * one.bytes_per_element, 0
        yield from ((FREE, block, 0, 0) for block in taken)


def _taken(sizes: Iterator[int], numbers: Iterator[int]) -> Iterator[Event]:
    return ((ALLOC, next(numbers), size, 0) for size in sizes)
