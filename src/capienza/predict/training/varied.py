"""The passes of updates whose microbatches differ in length, as events of the allocator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from capienza.allocator.events import MARK, Event
from capienza.architecture.model import Architecture
from capienza.predict.training.blocks.build import Builder
from capienza.predict.training.lengths import batch_lengths, knots, stretched
from capienza.predict.training.passes import MOST_MICROBATCHES, allocator_events, distinct, events, training_events
from capienza.predict.training.scope import check_scope
from capienza.predict.training.tape import ALLOCATED, FREED, SEGMENT
from capienza.predict.training.tape import Event as TapeEvent
from capienza.recipe.recipe import Recipe

PHASES = ["forward", "backward"]
"""Of one microbatch; the marks of varied updates mean these."""


def updates(
    architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None
) -> tuple[list[list[Event]], list[str]]:
    """Each update's events, and the names of their phases: two updates where all rows are alike, else a run of them.

    Blocks that are alive at an update's end are its gradients.
    """
    tokens = batch_lengths(recipe)
    if len(tokens) == 1:
        walk, names = events(architecture, recipe, config)
        return [walk, walk], names
    walked = _walker(architecture, recipe, config)
    # Two updates at least: the first makes the states.
    count = min(recipe.accumulation, len(tokens) // 2)
    each = range(0, len(tokens), count)
    return [_joined([walked(one) for one in tokens[at : at + count]]) for at in each], PHASES


def _walker(
    architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None
) -> Callable[[int], list[Event]]:
    """The walk of a length: from three that are walked, or where lengths change the operations, each its own."""
    check_scope(recipe)

    def walk(tokens: int) -> list[Event]:
        asked = msgspec.structs.replace(recipe, tokens=tokens)
        builder = Builder(architecture, asked, config)
        model, count = builder.decoder(range(len(builder.layers))), min(asked.accumulation, MOST_MICROBATCHES)
        _, like = distinct(architecture.layers, builder.layers)
        return allocator_events(_thinned(training_events(model, asked, count), _unlike_their_neighbours(like)))[0]

    at = knots(recipe.tokens)
    found = stretched([walk(one) for one in at], at)
    return walk if found is None else lambda tokens: list(found.of(tokens))


def _unlike_their_neighbours(like: Sequence[int]) -> set[int]:
    """Layers whose neighbours before or after are of another kind, or missing."""
    last = len(like) - 1
    return {at for at in range(len(like)) if at in (0, last) or like[at - 1] != like[at] or like[at + 1] != like[at]}


def _thinned(tape: list[TapeEvent], kept: set[int]) -> list[TapeEvent]:
    """Without what a layer between its like takes and gives back: it finds what the one before it left."""
    born: dict[int, object] = {}
    passing: set[int] = set()
    place: object = None
    for code, block, _, _ in tape:
        if code == SEGMENT:
            place = block
        elif code == ALLOCATED:
            born[block] = place
        elif code == FREED and born[block] == place and isinstance(place, tuple):
            part = place[1]
            if isinstance(part, int) and part not in kept:
                passing.add(block)
    return [one for one in tape if one[0] == SEGMENT or one[1] not in passing]


def _joined(walks: list[list[Event]]) -> list[Event]:
    """One update: the first microbatch makes the gradients, the others add to them."""
    joined: list[Event] = []
    offset = 0
    for walk in walks:
        second = _second(walk)
        own = walk[second:] if joined else walk[:second]
        phase = 0
        for code, block, size, stream in own:
            if code == MARK:
                joined.append((MARK, phase, 0, 0))
                phase += 1
            else:
                joined.append((code, block + offset, size, stream))
        offset += 1 + max(block for code, block, _, _ in own if code != MARK)
    return joined


def _second(walk: list[Event]) -> int:
    """Where the second microbatch begins; the end where there is one only."""
    marks = [place for place, event in enumerate(walk) if event[0] == MARK]
    return marks[len(PHASES)] if len(marks) > len(PHASES) else len(walk)
