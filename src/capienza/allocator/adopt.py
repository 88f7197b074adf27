"""A state from elsewhere put into the allocator, and the allocator's own state read out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, pairwise

from capienza.allocator.allocator import Allocator
from capienza.allocator.blocks import Block, FreeList, Pool
from capienza.allocator.expandable import RANGE_PAGES
from capienza.allocator.start import Range, Start

DEFAULT_POOL = (0, 0)


def adopt(state: Allocator, start: Start) -> dict[int, Block]:
    """Put segments with their blocks into an empty allocator; the blocks that live, by address.

    Ranges of expandable segments of one pool, stream and smallness become one segment: where one of them begins and
    ends in addresses is not recorded.
    """
    alive: dict[int, Block] = {}
    ranges = start.ranges
    pieces = [one for one in ranges if one.is_expandable]
    for one in ranges:
        if not one.is_expandable:
            home = home_of(state, one)
            chain = _chain(home, one, None, alive)
            if not chain[0].active and chain[0].is_whole:
                state.device.whole_free_bytes += one.size
    pieces.sort(key=lambda one: (one.group, one.address))
    for group, parts in groupby(pieces, key=lambda one: one.group):
        _adopt_expandable(state, list(parts), start.floors.get(group), alive)
    state.device.reserved_bytes += sum(one.size for one in ranges)
    for block in alive.values():
        state.active += block.size
        state.requested += block.requested
        state.allocated += block.size
    for one in ranges:
        for address, stretch in one.blocks.items():
            if stretch.is_waiting:
                state.let_go(alive[address])
    return alive


def home_of(state: Allocator, one: Range) -> FreeList:
    """The free list of a recorded segment."""
    state.pool = pool_of(state, one.pool)
    home = state.home(one.stream, one.is_small)
    state.pool = state.default_pool
    return home


def pool_of(state: Allocator, recorded: tuple[int, int]) -> Pool:
    """The pool with this recorded identity."""
    if recorded == DEFAULT_POOL:
        return state.default_pool
    number = (recorded[0] << 62) + recorded[1]
    return state.private_pools.setdefault(number, Pool(number))


def _adopt_expandable(state: Allocator, pieces: list[Range], floor: int | None, alive: dict[int, Block]) -> None:
    home, base = home_of(state, pieces[0]), pieces[0].address
    last: Block | None = None
    if floor is not None and floor < base and (base - floor) % home.page_bytes == 0:
        base, last = floor, Block(home, floor, base - floor, floor)
        last.mapped = False
        home.add_unmapped(last)
    for one in pieces:
        gap = 0 if last is None else one.address - (last.address + last.size)
        if last is not None and gap:
            last = _add_unmapped(last, gap)
        chain = _chain(home, one, base, alive)
        if last is not None:
            last.next, chain[0].previous = chain[0], last
        last = chain[-1]
    assert last is not None
    _add_unmapped(last, home.page_bytes * RANGE_PAGES)


def _add_unmapped(after: Block, size: int) -> Block:
    block = Block(after.home, after.address + after.size, size, after.base)
    block.mapped = False
    block.place_after(after)
    block.home.add_unmapped(block)
    return block


def _chain(home: FreeList, one: Range, base: int | None, alive: dict[int, Block]) -> list[Block]:
    """The blocks that tile a range, free ones between those that live, neighbours linked."""
    chain: list[Block] = []
    at, end = one.address, one.address + one.size
    for address, stretch in sorted(one.blocks.items()):
        if address > at:
            chain.append(Block(home, at, address - at, base))
        block = Block(home, address, min(stretch.size, end - address), base)
        block.active, block.requested = True, stretch.requested
        alive[address] = block
        chain.append(block)
        at = address + block.size
    if at < end:
        chain.append(Block(home, at, end - at, base))
    for before, after in pairwise(chain):
        before.next, after.previous = after, before
    for block in chain:
        if not block.active:
            home.add(block)
    return chain


def chains(state: Allocator, alive: Iterable[Block]) -> list[list[Block]]:
    """Every segment now, lowest address first, as its mapped blocks in order; of an expandable one each mapped range.

    `alive` are the blocks that live; a segment has at least one of them or a free block.
    """
    known = [*alive, *state.waiting.values()]
    for pool in (state.default_pool, *state.private_pools.values()):
        for home in pool.homes.values():
            known.extend(home.blocks.values())
    found = []
    for block in known:
        if block.previous is None or not block.previous.mapped:
            chain = [block]
            while (after := chain[-1].next) is not None and after.mapped:
                chain.append(after)
            found.append(chain)
    return sorted(found, key=lambda chain: chain[0].address)
