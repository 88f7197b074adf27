"""The allocator of one device: cudaMalloc and cudaFree below, a cache of blocks above.

Rules as in c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.6 to 2.13; the names of its functions stand beside them.
"""

from __future__ import annotations

from capienza.allocator.blocks import Block, FreeList
from capienza.allocator.settings import Settings

MIB = 2**20
SMALLEST_BLOCK = 512
SMALL_SIZE = MIB
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
SMALLEST_OWN_SEGMENT = 10 * MIB
SEGMENT_STEP = 2 * MIB


def segment_bytes(size: int) -> int:
    """What is asked of the device when no cached block fits (get_allocation_size)."""
    if size <= SMALL_SIZE:
        return SMALL_SEGMENT
    if size < SMALLEST_OWN_SEGMENT:
        return LARGE_SEGMENT
    return -(-size // SEGMENT_STEP) * SEGMENT_STEP


class Allocator:
    """The state of one device's allocator. Sizes in bytes."""

    def __init__(self, settings: Settings, capacity_bytes: int | None = None) -> None:
        self.settings = settings
        self.capacity_bytes = capacity_bytes
        self.free_lists: dict[tuple[int, bool], FreeList] = {}
        self.allocated = self.requested = self.active = self.reserved = self.whole_free = 0
        self.device_allocations = self.device_frees = 0
        self.next_address = SEGMENT_STEP

    @property
    def inactive_split(self) -> int:
        """Free bytes in segments that are partly in use."""
        return self.reserved - self.active - self.whole_free

    def allocate(self, requested: int, stream: int) -> Block | None:
        """A block of at least this size for this stream; None when the device has no more."""
        size = -(-requested // SMALLEST_BLOCK) * SMALLEST_BLOCK
        is_small = size <= SMALL_SIZE
        home = self.free_lists.get((stream, is_small))
        if home is None:
            home = self.free_lists[(stream, is_small)] = FreeList(stream, is_small)
        block = home.take(size)
        if block is None:
            block = self._malloc_with_retries(home, segment_bytes(size))
            if block is None:
                return None
        elif block.previous is None and block.next is None:
            self.whole_free -= block.size
        rest = block.size - size
        # should_split: a remainder of a small block stays usable from 512 B on, of a large one above 1 MiB.
        if rest >= SMALLEST_BLOCK if is_small else rest > SMALL_SIZE:
            self._split(block, size)
        block.active = True
        block.requested = requested
        self.allocated += block.size
        self.active += block.size
        self.requested += requested
        return block

    def free(self, block: Block) -> None:
        """The program gives the block back and it can be used again (free and free_block)."""
        self.allocated -= block.size
        self.requested -= block.requested
        self.active -= block.size
        self._put_back(block)

    def empty_cache(self) -> None:
        """Give back every segment that no block is in (release_cached_blocks)."""
        for home in self.free_lists.values():
            self._release_whole(home)

    def _put_back(self, block: Block) -> None:
        block.active = False
        home = block.home
        before, after = block.previous, block.next
        if before is not None and not before.active:
            home.remove(before)
            block.address = before.address
            block.size += before.size
            block.previous = before.previous
            if before.previous is not None:
                before.previous.next = block
        if after is not None and not after.active:
            home.remove(after)
            block.size += after.size
            block.next = after.next
            if after.next is not None:
                after.next.previous = block
        home.add(block)
        if block.previous is None and block.next is None:
            self.whole_free += block.size

    def _split(self, block: Block, size: int) -> None:
        """Cut the block to this size; the rest, at the higher addresses, is free."""
        home = block.home
        rest = Block(home, block.address + size, block.size - size)
        rest.previous = block
        rest.next = block.next
        if rest.next is not None:
            rest.next.previous = rest
        block.next = rest
        block.size = size
        home.add(rest)

    def _malloc_with_retries(self, home: FreeList, size: int) -> Block | None:
        block = self._malloc(home, size)
        if block is None:
            self.empty_cache()
            block = self._malloc(home, size)
        return block

    def _malloc(self, home: FreeList, size: int) -> Block | None:
        if self.capacity_bytes is not None and self.reserved + size > self.capacity_bytes:
            return None
        block = Block(home, self.next_address, size)
        self.next_address += size
        self.reserved += size
        self.device_allocations += 1
        return block

    def _release_whole(self, home: FreeList) -> None:
        for block in [block for block in home.blocks.values() if block.previous is None and block.next is None]:
            home.remove(block)
            self.reserved -= block.size
            self.whole_free -= block.size
            self.device_frees += 1
