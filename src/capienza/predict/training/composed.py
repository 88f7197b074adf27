"""The levels of a whole model from those of its distinct layers.

Legend: a segment is a part of the program (a layer's forward pass, the loss, ...); a level is what is alive, by kind
(activations, logits, gradients, working). A layer that comes again does what the first of its like did, so its segment
is walked once and laid upon the level that is there when its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from capienza.predict.training.tape import ALLOCATED, FREED, RENAMED, Event

Level: TypeAlias = tuple[int, int, int, int]
EXITS = {(phase, part) for phase in ("forward", "reference") for part in ("exit", "left")}
"""Where what was held of every layer goes: autocast's copies of weights, the rows that a caller asked for."""


class Segment(msgspec.Struct):
    """What a part of the program adds to the level at its end, and at most, and where that is."""

    name: Any
    change: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0, 0])
    highest: Level = (0, 0, 0, 0)


def segments_of(events: Sequence[Event], repeats: Mapping[object, int]) -> list[Segment]:
    """The segments in order. A segment of `repeats` stands for so many: what autocast held of it goes so often."""
    segments: list[Segment] = []
    current = Segment("")
    total = most = 0
    alive: dict[int, tuple[int, int, int]] = {}
    for code, block, size, kind in events:
        if code == ALLOCATED:
            alive[block] = (size, kind, repeats.get(current.name, 1))
            current.change[kind] += size
            total += size
            if total > most:
                most, current.highest = total, _level(current)
        elif code == FREED:
            size, kind, often = alive.pop(block)
            if current.name in EXITS:
                size *= often
            current.change[kind] -= size
            total -= size
        elif code == RENAMED:
            size, before, often = alive[block]
            alive[block] = (size, kind, often)
            current.change[before] -= size
            current.change[kind] += size
        else:
            current = Segment(block)
            segments.append(current)
            total = most = 0
    return segments


def _level(segment: Segment) -> Level:
    first, second, third, fourth = segment.change
    return first, second, third, fourth


def highest(start: Level, segments: Sequence[Segment]) -> tuple[Level, object, Level]:
    """The highest level of a run of segments, where it is, and the level at the end."""
    level, best, where = start, start, segments[0].name if segments else ""
    most = sum(start)
    for segment in segments:
        peak = _sum(level, segment.highest)
        if sum(peak) > most:
            most, best, where = sum(peak), peak, segment.name
        level = _sum(level, segment.change)
    return best, where, level


def _sum(left: Sequence[int], right: Sequence[int]) -> Level:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3]
