"""The levels of a whole model from those of its distinct layers.

Legend: a segment is a part of the program (a layer's forward pass, the loss, ...); a level is what is alive, by kind
(activations, logits, gradients, working). A layer that comes again does what the first of its like did, so its segment
is walked once and laid upon the level that is there when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from capienza.predict.training.tape import ALLOCATED, FREED, ONCE, RENAMED, Event

Level: TypeAlias = tuple[int, int, int, int]
EXITS = {(phase, part) for phase in ("forward", "reference") for part in ("exit", "left", "graph")} | {
    ("backward", "graph")
}
"""Where what was held of every layer goes: autocast's copies of weights, the rows that a caller asked for, a graph."""


class Segment(msgspec.Struct):
    """What a part of the program adds to the level at its end, and at most, and where that is."""

    name: Any
    change: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0, 0])
    highest: Level = (0, 0, 0, 0)


def segments_of(events: Sequence[Event], repeats: Mapping[object, int]) -> list[Segment]:
    """The segments in order. A segment of `repeats` stands for so many: what goes at an exit goes so often."""
    segments: list[Segment] = []
    current = Segment("")
    change, often, is_exit = current.change, 1, False
    total = most = 0
    alive: dict[int, tuple[int, int, int]] = {}
    for code, block, size, kind in events:
        if code == ALLOCATED:
            alive[block] = size, kind, often
            change[kind] += size
            total += size
            continue
        # The level only rises up to here: it is looked at where it stops rising.
        if total > most:
            most, current.highest = total, _level(change)
        if code == FREED:
            size, kind, often_held = alive.pop(block)
            change[kind] -= size * often_held if is_exit else size
            total -= size * often_held if is_exit else size
        elif code == RENAMED:
            renaming = size
            size, before, often_held = alive[block]
            alive[block] = size, kind, 1 if renaming == ONCE else often_held
            change[before] -= size
            change[kind] += size
        else:
            current = Segment(block)
            segments.append(current)
            change, often, is_exit = current.change, repeats.get(block, 1), block in EXITS
            total = most = 0
    if total > most:
        current.highest = _level(change)
    return segments


def _level(change: Sequence[int]) -> Level:
    first, second, third, fourth = change
    return first, second, third, fourth


def highest(start: Level, segments: Iterable[tuple[object, Segment]]) -> tuple[Level, object, Level]:
    """The highest level of a run of named segments, where it is first reached, and the level at the end."""
    level, best, where = start, start, None
    total = most = sum(start)
    for name, segment in segments:
        if where is None:
            where = name
        if total + sum(segment.highest) > most:
            most, best, where = total + sum(segment.highest), _sum(level, segment.highest), name
        level = _sum(level, segment.change)
        total += sum(segment.change)
    return best, where, level


def _sum(left: Sequence[int], right: Sequence[int]) -> Level:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3]
