"""A program written down as what it takes from PyTorch's allocator and gives back."""

from __future__ import annotations

from collections.abc import Iterable

from capienza.allocator.events import ALLOC, FREE, Event

MAIN_STREAM, GATHER_STREAM, REDUCE_STREAM = 0, 1, 2
"""Blocks of a stream are only used again by the same stream."""


class Program:
    """Events in order. Its own blocks have negative numbers, so that they mix with blocks numbered by others."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._blocks = 0

    def take(self, size_bytes: int, stream: int = MAIN_STREAM) -> int:
        """A block of so many bytes; its number."""
        self._blocks -= 1
        self.events.append((ALLOC, self._blocks, size_bytes, stream))
        return self._blocks

    def give(self, *blocks: int) -> None:
        """Give blocks back."""
        self.events.extend((FREE, block, 0, 0) for block in blocks)

    def passing(self, *sizes_bytes: int) -> None:
        """Take blocks and give them back at once."""
        self.give(*[self.take(size) for size in sizes_bytes])

    def extend(self, events: Iterable[Event]) -> None:
        """What another program does here; its blocks are numbered from 0."""
        self.events.extend(events)
