"""The allocator again, as plainly as it can be said: every search looks at everything. Slow, and an oracle.

A segment is a list of stretches [size, owner]; owner None is free. No expandable segments, no garbage collection.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capienza.allocator.events import ALLOC, EMPTY_CACHE, FREE, FREE_REQUESTED, Event

MIB = 2**20


@dataclass
class Segment:
    """One cudaMalloc."""

    number: int
    stream: int
    is_small: bool
    stretches: list[list[int | None]]

    @property
    def size(self) -> int:
        return sum(size or 0 for size, _ in self.stretches)


@dataclass
class Naive:
    """Its state, and what is asked of it."""

    capacity: int | None = None
    max_split: int = 2**64
    segments: list[Segment] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)
    mallocs: int = 0
    frees: int = 0
    peak: int = 0
    allocated_peak: int = 0
    failed_at: int | None = None

    @property
    def reserved(self) -> int:
        return sum(one.size for one in self.segments)

    @property
    def allocated(self) -> int:
        return sum(
            size or 0
            for one in self.segments
            for size, owner in one.stretches
            if owner is not None and owner not in self.waiting
        )

    def run(self, events: list[Event]) -> None:
        for index, (code, block, size, stream) in enumerate(events):
            if code == ALLOC and size:
                if not self.allocate(block, size, stream):
                    self.failed_at = index
                    return
                self.peak = max(self.peak, self.reserved)
                self.allocated_peak = max(self.allocated_peak, self.allocated)
            elif code == FREE:
                self.waiting.discard(block)
                self.release_block(block)
            elif code == FREE_REQUESTED:
                self.waiting.add(block)
            elif code == EMPTY_CACHE:
                self.empty_cache()

    def allocate(self, block: int, requested: int, stream: int) -> bool:
        size = -(-requested // 512) * 512
        is_small = size <= MIB
        return (
            self.place(block, size, stream, is_small)
            or (self.malloc(size, stream, is_small) and self.place(block, size, stream, is_small, newest=True))
            or (
                self.release_oversize(size, stream, is_small)
                and self.malloc(size, stream, is_small)
                and self.place(block, size, stream, is_small, newest=True)
            )
            or (
                self.empty_cache()
                and self.malloc(size, stream, is_small)
                and self.place(block, size, stream, is_small, newest=True)
            )
        )

    def free_stretches(self, stream: int, is_small: bool) -> list[tuple[int, int, int]]:
        return sorted(
            (stretch[0] or 0, segment.number, place)
            for segment in self.segments
            if (segment.stream, segment.is_small) == (stream, is_small)
            for place, stretch in enumerate(segment.stretches)
            if stretch[1] is None
        )

    def place(self, block: int, size: int, stream: int, is_small: bool, newest: bool = False) -> bool:
        for found, number, place in self.free_stretches(stream, is_small):
            if found < size or (newest and number != self.mallocs):
                continue
            if not newest and found >= self.max_split and (size < self.max_split or found >= size + 20 * MIB):
                return False
            segment = next(one for one in self.segments if one.number == number)
            rest = found - size
            splits = rest >= 512 if is_small else rest > MIB and size < self.max_split
            segment.stretches[place : place + 1] = [[size, block], [rest, None]] if splits else [[found, block]]
            return True
        return False

    def malloc(self, size: int, stream: int, is_small: bool) -> bool:
        bytes_ = 2 * MIB if is_small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.capacity is not None and self.reserved + bytes_ > self.capacity:
            return False
        self.mallocs += 1
        self.segments.append(Segment(self.mallocs, stream, is_small, [[bytes_, None]]))
        return True

    def release_block(self, block: int) -> None:
        for segment in self.segments:
            for stretch in segment.stretches:
                if stretch[1] == block:
                    stretch[1] = None
            joined: list[list[int | None]] = []
            for size, owner in segment.stretches:
                if joined and owner is None and joined[-1][1] is None:
                    joined[-1][0] = (joined[-1][0] or 0) + (size or 0)
                else:
                    joined.append([size, owner])
            segment.stretches = joined

    def release_oversize(self, size: int, stream: int, is_small: bool) -> bool:
        if self.max_split == 2**64:
            return False
        wanted = max(size, self.max_split)
        cached = self.free_stretches(stream, is_small)
        fitting = [one for one in cached if one[0] >= wanted]
        chosen = fitting[:1]
        if not fitting:
            for one in reversed(cached):
                if sum(size for size, _, _ in chosen) < wanted and one[0] >= self.max_split:
                    chosen.append(one)
        gone = {number for _, number, _ in chosen}
        self.segments = [one for one in self.segments if one.number not in gone]
        self.frees += len(gone)
        return sum(size for size, _, _ in chosen) >= wanted

    def empty_cache(self) -> bool:
        for block in list(self.waiting):
            self.release_block(block)
        self.waiting.clear()
        kept = [one for one in self.segments if [owner for _, owner in one.stretches] != [None]]
        self.frees += len(self.segments) - len(kept)
        self.segments = kept
        return True
