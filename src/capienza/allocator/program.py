"""The program of a recording as events, to run it under other settings or with less memory."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.allocator.device import SEGMENT_FREE, SEGMENT_UNMAP
from capienza.allocator.events import ALLOC, BEGIN_POOL, EMPTY_CACHE, END_POOL, FREE, FREE_REQUESTED, Event
from capienza.allocator.recording import Entry, Segment
from capienza.allocator.settings import Settings
from capienza.allocator.start import state_at_start

DEFAULT_POOL = (0, 0)


def recorded_events(segments: Sequence[Segment], entries: Sequence[Entry], settings: Settings) -> list[Event]:
    """What the program did. A block is known by the line that allocated it.

    Blocks from before the first line are allocated first, in the order of their addresses. Where memory went back to
    the device, the cache is emptied: that the program asked for it, or that memory was short, looks the same.
    """
    pools = _Pools()
    events = pools.events
    alive: dict[int, int] = {}
    waiting: dict[int, int] = {}
    count = 0
    for one in state_at_start(segments, entries, settings).ranges:
        for address, block in sorted(one.blocks.items()):
            pools.use(one.pool)
            count -= 1
            alive[address] = count
            events.append((ALLOC, count, block.requested, one.stream))
            if block.is_waiting:
                waiting[address] = alive.pop(address)
                events.append((FREE_REQUESTED, count, 0, 0))
    was_free = False
    for index, entry in enumerate(entries):
        is_free = entry.action in (SEGMENT_FREE, SEGMENT_UNMAP)
        if entry.action == "alloc" and entry.size:
            pools.use(entry.pool_id)
            if entry.addr in alive:
                events.append((FREE, alive.pop(entry.addr), 0, 0))
            alive[entry.addr] = index
            events.append((ALLOC, index, entry.size, entry.stream))
        elif entry.action == "free_requested" and entry.addr in alive:
            waiting[entry.addr] = alive.pop(entry.addr)
            events.append((FREE_REQUESTED, waiting[entry.addr], 0, 0))
        elif entry.action == "free_completed" and entry.addr in waiting:
            number = waiting.pop(entry.addr)
            if events[-1] == (FREE_REQUESTED, number, 0, 0):
                events.pop()
            events.append((FREE, number, 0, 0))
        elif is_free and not was_free and entry.pool_id == DEFAULT_POOL:
            pools.use(DEFAULT_POOL)
            events.append((EMPTY_CACHE, 0, 0, 0))
        was_free = is_free
    return events


class _Pools:
    """Opens and closes private pools as the lines name them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.numbers: dict[tuple[int, int], int] = {DEFAULT_POOL: 0}
        self.current = DEFAULT_POOL

    def use(self, pool: tuple[int, int]) -> None:
        """What is allocated next comes from this pool."""
        if pool == self.current:
            return
        if self.current != DEFAULT_POOL:
            self.events.append((END_POOL, self.numbers[self.current], 0, 0))
        if pool != DEFAULT_POOL:
            self.events.append((BEGIN_POOL, self.numbers.setdefault(pool, len(self.numbers)), 0, 0))
        self.current = pool
