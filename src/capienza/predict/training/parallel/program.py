"""A program written down as what it takes from PyTorch's allocator and gives back."""

from __future__ import annotations

from capienza.allocator.events import ALLOC, FREE, Event


class Program:
    """Events in order. A block has a number; nothing is counted here."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._blocks = 0

    def take(self, size_bytes: int) -> int:
        """A block of so many bytes; its number."""
        self._blocks += 1
        self.events.append((ALLOC, self._blocks, size_bytes, 0))
        return self._blocks

    def give(self, *blocks: int) -> None:
        """Give blocks back."""
        self.events.extend((FREE, block, 0, 0) for block in blocks)

    def passing(self, *sizes_bytes: int) -> None:
        """Take blocks and give them back at once."""
        self.give(*[self.take(size) for size in sizes_bytes])
