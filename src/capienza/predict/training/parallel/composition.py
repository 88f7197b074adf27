"""What a program holds when it holds most, phase by phase, by what its blocks are for."""

from __future__ import annotations

import bisect

import msgspec

from capienza.allocator.events import ALLOC, FREE, MARK
from capienza.allocator.sizes import rounded_bytes
from capienza.predict.training.parallel.program import Program


class Composition(msgspec.Struct, frozen=True):
    """Bytes in blocks by purpose, at one moment; `place` is the part of the model that runs then."""

    bytes_by_purpose: dict[str, int]
    place: object = None

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return sum(self.bytes_by_purpose.values())


def compositions(program: Program) -> dict[str, Composition]:
    """The highest moment of each phase. A phase that comes again is one: its highest moment counts."""
    moments = _highest(program)
    sizes: dict[int, int] = {}
    held: dict[str, int] = {}
    by_event: dict[int, dict[str, int]] = {}
    wanted = set(moments.values())
    for index, (code, block, size, _) in enumerate(program.events):
        if code == ALLOC:
            sizes[block] = rounded_bytes(size) if size else 0
            purpose = program.purposes[block]
            held[purpose] = held.get(purpose, 0) + sizes[block]
        elif code == FREE:
            held[program.purposes[block]] -= sizes.pop(block)
        if index in wanted:
            by_event[index] = {purpose: amount for purpose, amount in held.items() if amount}
    starts = [event for event, _ in program.places]
    return {
        phase: Composition(by_event[event], program.places[at][1] if (at := _before(starts, event)) >= 0 else None)
        for phase, event in moments.items()
    }


def _before(starts: list[int], event: int) -> int:
    return bisect.bisect_right(starts, event) - 1


def _highest(program: Program) -> dict[str, int]:
    """The event after which most is held, by phase."""
    most: dict[str, tuple[int, int]] = {}
    sizes: dict[int, int] = {}
    total, phase = 0, ""
    for index, (code, block, size, _) in enumerate(program.events):
        if code == ALLOC:
            sizes[block] = rounded_bytes(size) if size else 0
            total += sizes[block]
        elif code == FREE:
            total -= sizes.pop(block)
        elif code == MARK:
            phase = program.phases[block]
        if phase not in most or total > most[phase][0]:
            most[phase] = total, index
    return {phase: event for phase, (_, event) in most.items() if phase}
