"""The allocator of one device: a cache of blocks above, cudaMalloc and cudaFree below.

Rules as in c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.6 to 2.13; the names of its functions stand beside them.
Not modelled: pools that lend on a lack of memory (use_on_oom) or never split (no_split), and pools with an own
allocator. While a private pool is open without a capture, releases before 2.13 gave nothing back; here they do.
"""

from __future__ import annotations

from bisect import bisect_left

from capienza.allocator.blocks import ADDRESS_BITS, Block, FreeList, Pool
from capienza.allocator.device import Device
from capienza.allocator.expandable import allocate_expandable, widest_fit
from capienza.allocator.pressure import collect_garbage, release_oversize, release_pool
from capienza.allocator.settings import Settings
from capienza.allocator.sizes import (
    LARGEST_REQUEST,
    SMALL_SEGMENT,
    SMALL_SIZE,
    SMALLEST_BLOCK,
    rounded_bytes,
    segment_bytes,
)

NO_LIMIT = 2**64


class Allocator:
    """The state of one device's allocator. Sizes in bytes."""

    def __init__(self, settings: Settings, capacity_bytes: int | None = None) -> None:
        self.settings = settings
        self.device = Device(capacity_bytes)
        self.divisions = settings.roundup_power2_divisions
        self.is_expandable = settings.expandable_segments
        self.max_split = settings.max_split_bytes or NO_LIMIT
        self.collects = settings.garbage_collection_threshold > 0 and settings.allowed_bytes is not None
        self.default_pool = self.pool = Pool()
        self.private_pools: dict[int, Pool] = {}
        self.open_pools: list[tuple[Pool, bool]] = []
        self.waiting: dict[int, Block] = {}
        """Blocks let go, by a ticket: the block itself may be in other hands when its time comes."""
        self.tickets = 0
        self.allocated = self.active = self.requested = 0

    @property
    def inactive_split(self) -> int | None:
        """Free bytes in segments that are partly in use; PyTorch keeps no such figure for expandable ones."""
        if self.is_expandable:
            return None
        return self.device.reserved_bytes - self.active - self.device.whole_free_bytes

    def allocate(self, requested: int, stream: int) -> Block | None:
        """A block of at least this size for this stream; None when the device has no more (malloc)."""
        if self.divisions:
            size = rounded_bytes(requested, self.divisions)
        else:
            size = -(-requested // SMALLEST_BLOCK) * SMALLEST_BLOCK
        is_small = size <= SMALL_SIZE
        home = self.pool.homes.get((stream, is_small)) or self.home(stream, is_small)
        block = self._cached(home, size)
        if block is None:
            block = self._from_device(home, size)
            if block is None:
                return None
        elif block.previous is None and block.next is None and block.base is None:
            self.device.whole_free_bytes -= block.size
        rest = block.size - size
        # should_split
        if rest >= SMALLEST_BLOCK if is_small or self.is_expandable else rest > SMALL_SIZE and size < self.max_split:
            left = Block(home, block.address + size, rest, block.base)
            left.place_after(block)
            block.size = size
            home.add(left)
        block.active = True
        block.requested = requested
        self.allocated += block.size
        self.active += block.size
        self.requested += requested
        return block

    def free(self, block: Block) -> None:
        """The program gives the block back, and it can be used again at once."""
        self.allocated -= block.size
        self._put_back(block)

    def let_go(self, block: Block) -> int:
        """The program gives the block back while another stream still uses it (a free after record_stream).

        The ticket that comes back is what `complete` takes.
        """
        self.allocated -= block.size
        self.tickets += 1
        self.waiting[self.tickets] = block
        return self.tickets

    def complete(self, ticket: int) -> None:
        """The other stream is done with a block that was let go; a release may have waited for it before."""
        block = self.waiting.pop(ticket, None)
        if block is not None:
            self._put_back(block)

    def empty_cache(self) -> None:
        """Give back all that no block is in (release_cached_blocks): not while a graph is captured."""
        if not any(is_capture for _, is_capture in self.open_pools):
            for ticket in list(self.waiting):
                self.complete(ticket)
            release_pool(self.default_pool, self.device)
        for pool in self.private_pools.values():
            if pool.is_released:
                release_pool(pool, self.device)

    def open_pool(self, number: int, is_capture: bool) -> bool:
        """Allocate from a private pool from here on (beginAllocateToPool); False if it was released already."""
        pool = self.private_pools.setdefault(number, Pool(number))
        if not pool.is_released:
            self.open_pools.append((pool, is_capture))
            self.pool = pool
        return not pool.is_released

    def close_pool(self) -> bool:
        """Back to the pool that was open before (endAllocateToPool); False if none is open."""
        if not self.open_pools:
            return False
        self.open_pools.pop()
        self.pool = self.open_pools[-1][0] if self.open_pools else self.default_pool
        return True

    def home(self, stream: int, is_small: bool) -> FreeList:
        """The free list of the open pool for this stream, made when it is first needed."""
        page = SMALL_SEGMENT if is_small else self.settings.large_segment_bytes
        return self.pool.homes.setdefault((stream, is_small), FreeList(self.pool, stream, is_small, page))

    def _cached(self, home: FreeList, size: int) -> Block | None:
        """The block that fits best (get_free_block)."""
        if self.collects and not home.is_small:
            home.pool.searches += 1
        keys = home.keys
        place = bisect_left(keys, size << ADDRESS_BITS)
        if place == len(keys):
            return None
        if self.is_expandable:
            place = widest_fit(home, place)
        if self.max_split < NO_LIMIT:
            found = home.at(place).size
            if found >= self.max_split and (
                size < self.max_split or found >= size + self.settings.max_non_split_rounding_bytes
            ):
                return None
        return home.blocks.pop(keys.pop(place))

    def _from_device(self, home: FreeList, size: int) -> Block | None:
        """New memory; what is cached goes back until there is enough, step by step."""
        if size >= LARGEST_REQUEST:
            return None
        settings, device = self.settings, self.device
        if self.collects:
            allowed = settings.allowed_bytes or 0
            collect_garbage(self.default_pool, device, int(settings.garbage_collection_threshold * allowed))
        block = self._malloc(home, size)
        if block is None and self.max_split < NO_LIMIT and release_oversize(home, size, self.max_split, device):
            block = self._malloc(home, size)
        if block is None and not any(is_capture for _, is_capture in self.open_pools):
            self.empty_cache()
            block = self._malloc(home, size)
        return block

    def _malloc(self, home: FreeList, size: int) -> Block | None:
        """One attempt (alloc_block)."""
        segment = segment_bytes(size, self.settings.large_segment_bytes)
        allowed = self.settings.allowed_bytes
        if allowed is not None and self.device.reserved_bytes + segment > allowed:
            return None
        if self.is_expandable:
            return allocate_expandable(home, size, self.device)
        return self.device.malloc(home, segment)

    def _put_back(self, block: Block) -> None:
        """Join the block with its free neighbours and cache it (free_block)."""
        self.active -= block.size
        self.requested -= block.requested
        block.active = False
        home = block.home
        before, after = block.previous, block.next
        if before is not None and not before.active and before.mapped:
            home.remove(before)
            block.absorb_previous(before)
        if after is not None and not after.active and after.mapped:
            home.remove(after)
            block.absorb_next(after)
        home.add(block)
        if block.previous is None and block.next is None and block.base is None:
            self.device.whole_free_bytes += block.size
