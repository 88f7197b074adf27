"""Expandable segments: a long range of addresses in which memory is mapped page by page.

    page     2 MiB in a pool of small blocks, the large segment (20 MiB) in one of large blocks
    range    one for each pool, stream and smallness; it has more addresses than the device has memory

Source: ExpandableSegment and the functions named below in c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from capienza.allocator.blocks import Block, FreeList
from capienza.allocator.device import SEGMENT_MAP, SEGMENT_UNMAP, Device

RANGE_PAGES = 2**20
"""The real range spans 9/8 of the device's memory; a longer one differs only where that much is mapped to and fro."""


def allocate_expandable(home: FreeList, size: int, device: Device) -> Block | None:
    """A free block of at least this size, out of its list, with new memory (try_allocate_expandable_block)."""
    block = _find_room(home, size, device)
    if not block.mapped and not _map(block, min(block.size, size), device):
        return None
    while block.size < size:
        after = block.next
        # What is mapped before a later page fails stays mapped, and cached.
        if after is None or not _map(after, min(size - block.size, after.size), device):
            return None
        block = after
    home.remove(block)
    return block


def _find_room(home: FreeList, size: int, device: Device) -> Block:
    """The lowest free or unmapped stretch from which this much room follows (find_expandable_block)."""
    for unmapped in home.unmapped:
        start = unmapped
        before = unmapped.previous
        if before is not None and not before.active:
            start = before
        if _room(start, size) >= size:
            return start
    span = home.page_bytes * max(RANGE_PAGES, -(-size // home.page_bytes))
    block = Block(home, device.next_address, span, base=device.next_address)
    block.mapped = False
    device.next_address += span
    home.add_unmapped(block)
    return block


def _room(start: Block, size: int) -> int:
    room, block = 0, start
    while room < size and not block.active:
        room += block.size
        if block.next is None:
            break
        block = block.next
    return room


def _map(block: Block, size: int, device: Device) -> bool:
    """Put whole pages of memory behind the start of an unmapped stretch (map_block)."""
    home = block.home
    mapped = -(-size // home.page_bytes) * home.page_bytes
    if not device.has(mapped):
        return False
    home.unmapped.remove(block)
    block.mapped = True
    if mapped < block.size:
        rest = Block(home, block.address + mapped, block.size - mapped, base=block.base)
        rest.mapped = False
        rest.place_after(block)
        home.add_unmapped(rest)
        block.size = mapped
    device.take(SEGMENT_MAP, block.address, mapped, home)
    _merge(block)
    home.add(block)
    return True


def unmap(block: Block, device: Device) -> None:
    """Give back the whole pages inside a free block (unmap_block)."""
    home, page, base = block.home, block.home.page_bytes, block.base or 0
    first = base + -(-(block.address - base) // page) * page
    end = base + (block.address + block.size - base) // page * page
    if first >= end:
        return
    home.remove(block)
    before_size, after_size = first - block.address, block.address + block.size - end
    if before_size:
        before = Block(home, block.address, before_size, base=base)
        before.previous, before.next = block.previous, block
        if block.previous is not None:
            block.previous.next = before
        block.previous = before
        home.add(before)
    if after_size:
        after = Block(home, end, after_size, base=base)
        after.place_after(block)
        home.add(after)
    block.address, block.size, block.mapped = first, end - first, False
    device.give(SEGMENT_UNMAP, first, end - first, home)
    _merge(block)
    if not block.is_whole:
        home.add_unmapped(block)


def _merge(block: Block) -> None:
    """Join a block with neighbours that are free and mapped, or unmapped, as it is (try_merge_blocks)."""
    home = block.home
    for neighbour, absorb in ((block.previous, block.absorb_previous), (block.next, block.absorb_next)):
        if neighbour is not None and not neighbour.active and neighbour.mapped == block.mapped:
            if block.mapped:
                home.remove(neighbour)
            else:
                home.unmapped.remove(neighbour)
            absorb(neighbour)


def widest_fit(home: FreeList, place: int) -> int:
    """Which block to take: a block counts with the room it can grow into (in get_free_block)."""
    block = home.at(place)
    while block.base is not None and place + 1 < len(home.keys):
        after = home.at(place + 1)
        if _growable(after) >= _growable(block):
            break
        place, block = place + 1, after
    return place


def _growable(block: Block) -> int:
    after = block.next
    return block.size + (after.size if after is not None and not after.mapped else 0)
