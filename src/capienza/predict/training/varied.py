"""The passes of updates whose microbatches differ in length, as events of the allocator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from capienza.allocator.events import MARK, Event
from capienza.architecture.model import Architecture
from capienza.predict.training.lengths import batch_lengths, knots, stretched
from capienza.predict.training.passes import allocator_events, distinct, events, program
from capienza.predict.training.tape import ALLOCATED, FREED, SEGMENT
from capienza.predict.training.tape import Event as TapeEvent
from capienza.recipe.recipe import Recipe

Walk = tuple[list[Event], list[str]]
PHASES_OF_ONE = 2
"""A microbatch is two phases: forward and backward."""


def updates(architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None) -> Iterator[Walk]:
    """Each update's events, with the names of their phases: two updates where all rows are alike, else a run of them.

    Blocks that are alive at an update's end are its gradients.
    """
    tokens = batch_lengths(recipe)
    if len(tokens) == 1:
        walk = events(architecture, recipe, config)
        yield from (walk, walk)
        return
    walked = _walker(architecture, recipe, config)
    for start in range(0, len(tokens), recipe.accumulation):
        yield _joined([walked(one) for one in tokens[start : start + recipe.accumulation]])


def _walker(architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None) -> Callable[[int], Walk]:
    """The walk of a length: from three that are walked, or where lengths change the operations, each its own."""
    kept = _unlike_their_neighbours(architecture)

    def walk(tokens: int) -> Walk:
        tape = program(architecture, msgspec.structs.replace(recipe, tokens=tokens), config)
        return allocator_events(_thinned(tape, kept))

    at = knots(recipe.tokens)
    walks = [walk(one) for one in at]
    found = stretched([made for made, _ in walks], at)
    if found is None:
        return walk
    return lambda tokens: (list(found.of(tokens)), walks[0][1])


def _unlike_their_neighbours(architecture: Architecture) -> set[int]:
    """Layers whose neighbours before or after are of another kind, or missing."""
    _, like = distinct(architecture)
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


def _joined(walks: list[Walk]) -> Walk:
    """One update: the first microbatch makes the gradients, the others add to them."""
    made, names = walks[0]
    joined, phases = made[: _second(made)], names[:PHASES_OF_ONE]
    offset = 1 + max(block for _, block, _, _ in joined)
    for walk, its_names in walks[1:]:
        rest = walk[_second(walk) :]
        for code, block, size, stream in rest:
            if code == MARK:
                phases.append(its_names[block])
                joined.append((MARK, len(phases) - 1, 0, 0))
            else:
                joined.append((code, block + offset, size, stream))
        offset += 1 + max(block for _, block, _, _ in rest)
    return joined, phases


def _second(walk: list[Event]) -> int:
    """Where the second microbatch begins; the end where there is one only."""
    marks = [place for place, event in enumerate(walk) if event[0] == MARK]
    return marks[PHASES_OF_ONE] if len(marks) > PHASES_OF_ONE else len(walk)
