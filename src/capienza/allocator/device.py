"""The device under the allocator: what cudaMalloc and cudaFree do, and how much there is."""

from __future__ import annotations

from capienza.allocator.blocks import Block, FreeList

SEGMENT_ALLOC, SEGMENT_FREE = "segment_alloc", "segment_free"
SEGMENT_MAP, SEGMENT_UNMAP = "segment_map", "segment_unmap"
FIRST_ADDRESS = 2**41

Call = tuple[str, int, int, int, int]
"""Action, address, size in bytes, stream, number of the pool."""


class Device:
    """Memory taken and given back. Addresses only grow: which one the driver would choose again is not modelled."""

    def __init__(self, capacity_bytes: int | None) -> None:
        self.capacity_bytes = capacity_bytes
        self.reserved_bytes = 0
        self.whole_free_bytes = 0
        """Cached segments of cudaMalloc that no block is in."""
        self.allocations = self.frees = 0
        self.next_address = FIRST_ADDRESS
        self.calls: list[Call] | None = None
        """Each call in order, if someone wants them."""

    def has(self, size: int) -> bool:
        """Whether it can still give this much."""
        return self.capacity_bytes is None or self.reserved_bytes + size <= self.capacity_bytes

    def take(self, action: str, address: int, size: int, home: FreeList) -> None:
        """Memory goes to the allocator."""
        self.reserved_bytes += size
        self.allocations += 1
        if self.calls is not None:
            self.calls.append((action, address, size, home.stream, home.pool.number))

    def give(self, action: str, address: int, size: int, home: FreeList) -> None:
        """Memory comes back."""
        self.reserved_bytes -= size
        self.frees += 1
        if self.calls is not None:
            self.calls.append((action, address, size, home.stream, home.pool.number))

    def malloc(self, home: FreeList, size: int) -> Block | None:
        """A segment by cudaMalloc, or None."""
        if not self.has(size):
            return None
        block = Block(home, self.next_address, size)
        self.next_address += size
        self.take(SEGMENT_ALLOC, block.address, size, home)
        return block

    def release(self, block: Block) -> None:
        """A cached segment that no block is in goes back by cudaFree (release_block)."""
        block.home.remove(block)
        self.whole_free_bytes -= block.size
        self.give(SEGMENT_FREE, block.address, block.size, block.home)
