"""Blocks of device memory, and the free lists they wait in.

    segment   what one cudaMalloc gave, or a range of addresses that is mapped page by page; blocks tile it
    block     a stretch of a segment; each knows its neighbours
    active    in the program's hands, or let go while another stream still uses it
    mapped    backed by memory (always, but for the unmapped stretches of an expandable segment)

A free block lies in the list it came from.
"""

from __future__ import annotations

from bisect import bisect_left, insort

ADDRESS_BITS = 96
"""Room for an address below the size in the key of a free block: more than any sum of sizes can reach."""


class Block:
    """A stretch of a segment. `base` is the first address of its expandable segment, None where cudaMalloc gave it."""

    __slots__ = ("active", "address", "base", "home", "mapped", "next", "previous", "requested", "searches", "size")

    def __init__(self, home: FreeList, address: int, size: int, base: int | None = None) -> None:
        self.home = home
        self.address = address
        self.size = size
        self.base = base
        self.requested = 0
        self.active = False
        self.mapped = True
        self.previous: Block | None = None
        self.next: Block | None = None
        self.searches = 0

    @property
    def is_whole(self) -> bool:
        """Whether it is a segment by itself."""
        return self.previous is None and self.next is None

    def place_after(self, before: Block) -> None:
        """Come into the chain behind another block."""
        self.previous, self.next = before, before.next
        if before.next is not None:
            before.next.previous = self
        before.next = self

    def absorb_previous(self, before: Block) -> None:
        """Grow over the block before."""
        self.address = before.address
        self.size += before.size
        self.previous = before.previous
        if before.previous is not None:
            before.previous.next = self

    def absorb_next(self, after: Block) -> None:
        """Grow over the block after."""
        self.size += after.size
        self.next = after.next
        if after.next is not None:
            after.next.previous = self


class Pool:
    """The free lists of the default pool or of a private one, by stream and smallness."""

    __slots__ = ("homes", "is_released", "number", "searches")

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.homes: dict[tuple[int, bool], FreeList] = {}
        self.searches = 0
        """How often a large block was looked for; garbage collection measures age by it."""
        self.is_released = False


class FreeList:
    """The free blocks of one pool, stream and smallness: smallest first, then lowest address."""

    __slots__ = ("blocks", "is_small", "keys", "page_bytes", "pool", "stream", "unmapped")

    def __init__(self, pool: Pool, stream: int, is_small: bool, page_bytes: int) -> None:
        self.pool = pool
        self.stream = stream
        self.is_small = is_small
        self.page_bytes = page_bytes
        self.keys: list[int] = []
        self.blocks: dict[int, Block] = {}
        self.unmapped: list[Block] = []
        """Stretches of expandable segments without memory, lowest address first."""

    def add(self, block: Block) -> None:
        """Put a free block in its place."""
        key = block.size << ADDRESS_BITS | block.address
        block.searches = self.pool.searches
        insort(self.keys, key)
        self.blocks[key] = block

    def remove(self, block: Block) -> None:
        """Take this block out."""
        key = block.size << ADDRESS_BITS | block.address
        del self.keys[bisect_left(self.keys, key)]
        del self.blocks[key]

    def place(self, size: int) -> int:
        """Where the smallest block of at least this size stands; the number of blocks if there is none."""
        return bisect_left(self.keys, size << ADDRESS_BITS)

    def at(self, place: int) -> Block:
        """The block that stands there."""
        return self.blocks[self.keys[place]]

    def in_order(self) -> list[Block]:
        """Its blocks now, smallest first."""
        return [self.blocks[key] for key in self.keys]

    def add_unmapped(self, block: Block) -> None:
        """Put a stretch without memory in its place."""
        insort(self.unmapped, block, key=lambda one: one.address)
