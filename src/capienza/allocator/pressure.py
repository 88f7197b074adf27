"""What the allocator gives back: all it can, or just enough, or what has not been used for long."""

from __future__ import annotations

from capienza.allocator.blocks import FreeList, Pool
from capienza.allocator.device import Device
from capienza.allocator.expandable import unmap


def release_pool(pool: Pool, device: Device) -> None:
    """Every segment that no block is in, and every free page of expandable ones (release_blocks)."""
    for smallness in (False, True):
        for home in [home for home in pool.homes.values() if home.is_small is smallness]:
            if not home.unmapped and not device.whole_free_bytes:
                continue
            blocks = home.in_order()
            for block in blocks:
                if block.base is None and block.is_whole:
                    device.release(block)
            for block in blocks:
                if block.base is not None:
                    unmap(block, device)


def release_oversize(home: FreeList, size: int, max_split_bytes: int, device: Device) -> bool:
    """Just enough oversize blocks for a request (release_available_cached_blocks); whether that succeeded.

    One that is large enough, or else several, largest first; what was given back stays so even if it was too little.
    """
    wanted = max(size, max_split_bytes)
    place = home.place(wanted)
    if place < len(home.keys) and home.at(place).base is None:
        device.release(home.at(place))
        return True
    released = 0
    for block in reversed(home.in_order()[:place]):
        if released >= wanted or block.size < max_split_bytes:
            break
        if block.base is None:
            released += block.size
            device.release(block)
    return released >= wanted


def collect_garbage(pool: Pool, device: Device, threshold_bytes: int) -> None:
    """Whole large segments older than the average, until enough is back (garbage_collect_cached_blocks).

    Age counts the searches for a large block since this one was cached.
    """
    wanted = device.reserved_bytes - threshold_bytes
    whole = [
        block for home in pool.homes.values() if not home.is_small for block in home.blocks.values() if block.is_whole
    ]
    total_age = sum(pool.searches - block.searches for block in whole)
    count = len(whole)
    candidates = [block for block in whole if block.base is None]
    reclaimed, is_moving = 0, wanted > 0
    while is_moving and count and reclaimed < wanted:
        average = total_age / count
        old = [block for block in candidates if pool.searches - block.searches >= average]
        for block in old:
            reclaimed += block.size
            total_age -= pool.searches - block.searches
            count -= 1
            device.release(block)
        candidates = [block for block in candidates if pool.searches - block.searches < average]
        is_moving = bool(old)
