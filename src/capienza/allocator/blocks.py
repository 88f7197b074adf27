"""Blocks of device memory and the free lists they wait in.

    segment   what one cudaMalloc gave; blocks tile it, each knows its neighbours
    block     a stretch of a segment, in the program's hands or free
"""

from __future__ import annotations

from bisect import bisect_left, insort

ADDRESS_BITS = 96
"""Room for an address below the size in the key of a free block: more than any sum of sizes can reach."""


class Block:
    """A stretch of a segment; one that is free lies in the list it came from."""

    __slots__ = ("active", "address", "home", "next", "previous", "requested", "size")

    def __init__(self, home: FreeList, address: int, size: int) -> None:
        self.home = home
        self.address = address
        self.size = size
        self.requested = 0
        self.active = False
        self.previous: Block | None = None
        self.next: Block | None = None


class FreeList:
    """The free blocks of one pool and stream, smallest first, then lowest address."""

    __slots__ = ("blocks", "is_small", "keys", "stream")

    def __init__(self, stream: int, is_small: bool) -> None:
        self.stream = stream
        self.is_small = is_small
        self.keys: list[int] = []
        self.blocks: dict[int, Block] = {}

    def add(self, block: Block) -> None:
        """Put a free block in its place."""
        key = block.size << ADDRESS_BITS | block.address
        insort(self.keys, key)
        self.blocks[key] = block

    def remove(self, block: Block) -> None:
        """Take this block out."""
        key = block.size << ADDRESS_BITS | block.address
        del self.keys[bisect_left(self.keys, key)]
        del self.blocks[key]

    def take(self, size: int) -> Block | None:
        """Take out the smallest block of at least this size."""
        keys = self.keys
        place = bisect_left(keys, size << ADDRESS_BITS)
        if place == len(keys):
            return None
        return self.blocks.pop(keys.pop(place))
