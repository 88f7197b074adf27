"""The allocator's state at the beginning of a recording, worked out from its end.

A history keeps the latest events, so most begin in the middle of a run. The snapshot shows the segments and blocks at
the end; walking the history backwards, each allocation removes a block, each free brings one back.

What the history does not tell is the size of a block that is freed in it and was born before: only what was asked for.
A block that is allocated right behind it while it lives shows where it ends, since free stretches are joined and used
from their beginning. Otherwise it is rounded by the rules; and where up to 1 MiB of a large segment would be left
behind it, it has that too, since such a remainder is not split off.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from capienza.allocator.device import SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP
from capienza.allocator.recording import ALLOCATED, WAITING, Entry, Segment
from capienza.allocator.settings import Settings
from capienza.allocator.sizes import SMALL_SEGMENT, SMALL_SIZE, rounded_bytes
from capienza.errors import InputError, template

NOT_TILED = template(
    "snapshot.not-tiled",
    "the blocks of the segment at {address} do not add up to it",
    "The snapshot is damaged, or was edited; record it again.",
)
OVERLAP = template(
    "snapshot.overlap",
    "the segments at {first} and {second} overlap before the history begins",
    "The snapshot and its history do not belong together; record them again.",
)

Group = tuple[tuple[int, int], int, bool]
"""Pool, stream, and whether the blocks are small."""


class Stretch(msgspec.Struct):
    """A block that lives at the beginning; `size` is 0 where only what was asked for is known."""

    requested: int
    size: int
    is_waiting: bool


class Range(msgspec.Struct):
    """A segment at the beginning, or a mapped range of an expandable one, with its blocks by address."""

    address: int
    size: int
    stream: int
    pool: tuple[int, int]
    is_small: bool
    is_expandable: bool
    blocks: dict[int, Stretch]

    @property
    def group(self) -> Group:
        """Whose segment it is part of, if that is expandable."""
        return self.pool, self.stream, self.is_small


class Start(msgspec.Struct):
    """What stood there before the first event."""

    ranges: list[Range]
    floors: dict[Group, int]
    """The lowest address that an expandable segment of this group is seen to map."""
    lost: set[int]
    """Addresses of blocks that the history frees and that lie in no segment: the two do not agree."""


def state_at_start(segments: Sequence[Segment], entries: Sequence[Entry], settings: Settings) -> Start:
    """Walk the history back from the segments at its end."""
    ranges = {
        one.address: Range(
            one.address,
            one.total_size,
            one.stream,
            one.segment_pool_id,
            one.segment_type == "small",
            one.is_expandable,
            {},
        )
        for one in segments
    }
    blocks: dict[int, Stretch] = {}
    for segment in segments:
        address = segment.address
        if sum(block.size for block in segment.blocks) != segment.total_size:
            raise InputError(NOT_TILED(address=segment.address))
        for block in segment.blocks:
            if block.state == ALLOCATED or block.state in WAITING:
                blocks[address] = Stretch(block.requested_size or block.size, block.size, block.state in WAITING)
            address += block.size
    for entry in reversed(entries):
        _undo(entry, ranges, blocks)
    ordered = sorted(ranges.values(), key=lambda one: one.address)
    for one, other in pairwise(ordered):
        if one.address + one.size > other.address:
            raise InputError(OVERLAP(first=one.address, second=other.address))
    _learn_ends(ordered, blocks, entries)
    floors: dict[Group, int] = {}
    for entry in entries:
        if entry.action == SEGMENT_MAP:
            # A pool of small blocks maps one page at a time.
            group = entry.pool_id, entry.stream, entry.size == SMALL_SEGMENT
            floors[group] = min(floors.get(group, entry.addr), entry.addr)
    return Start(ordered, floors, _place(ordered, blocks, settings))


def _undo(entry: Entry, ranges: dict[int, Range], blocks: dict[int, Stretch]) -> None:
    action, address = entry.action, entry.addr
    if not entry.size:
        return
    if action == "alloc":
        blocks.pop(address, None)
    elif action == "free_completed":
        blocks[address] = Stretch(entry.size, 0, True)
    elif action == "free_requested":
        waiting = blocks.setdefault(address, Stretch(entry.size, 0, False))
        waiting.is_waiting = False
    elif action == SEGMENT_ALLOC:
        ranges.pop(address, None)
    elif action == SEGMENT_FREE:
        is_small = entry.size <= SMALL_SEGMENT
        ranges[address] = Range(address, entry.size, entry.stream, entry.pool_id, is_small, False, {})
    elif action == SEGMENT_MAP:
        _cut(ranges, address, entry.size)
    elif action == SEGMENT_UNMAP:
        _join(ranges, entry)


def _cut(ranges: dict[int, Range], address: int, size: int) -> None:
    """A range is not mapped yet: what lies before and behind it stays."""
    end = address + size
    for one in [one for one in ranges.values() if one.address < end and address < one.address + one.size]:
        del ranges[one.address]
        for low, high in ((one.address, address), (end, one.address + one.size)):
            if low < high:
                ranges[low] = msgspec.structs.replace(one, address=low, size=high - low, blocks={})


def _join(ranges: dict[int, Range], entry: Entry) -> None:
    """A range is still mapped: it grows together with those it touches."""
    low, high = entry.addr, entry.addr + entry.size
    touching = [
        one for one in ranges.values() if one.is_expandable and one.address <= high and low <= one.address + one.size
    ]
    is_small = touching[0].is_small if touching else entry.size % (10 * SMALL_SEGMENT) > 0
    for one in touching:
        del ranges[one.address]
        low, high = min(low, one.address), max(high, one.address + one.size)
    ranges[low] = Range(low, high - low, entry.stream, entry.pool_id, is_small, True, {})


def _learn_ends(ordered: Sequence[Range], blocks: dict[int, Stretch], entries: Sequence[Entry]) -> None:
    """Ends of blocks that show in what is allocated behind them."""
    unknown = {address for address, block in blocks.items() if not block.size}
    if not unknown:
        return
    starts = [one.address for one in ordered]
    alive = sorted(blocks)
    for entry in entries:
        if entry.action == "alloc":
            place = bisect_left(alive, entry.addr)
            before = alive[place - 1] if place else -1
            if before in unknown:
                holder = bisect_right(starts, before) - 1
                if holder >= 0 and entry.addr < ordered[holder].address + ordered[holder].size:
                    blocks[before].size = entry.addr - before
                    unknown.remove(before)
            if alive[place : place + 1] != [entry.addr]:
                alive.insert(place, entry.addr)
        elif entry.action == "free_completed":
            place = bisect_left(alive, entry.addr)
            if alive[place : place + 1] == [entry.addr]:
                del alive[place]
            unknown.discard(entry.addr)
            if not unknown:
                return


def _place(ordered: Sequence[Range], blocks: dict[int, Stretch], settings: Settings) -> set[int]:
    """Put every block into its range, with its size; those that lie in none."""
    addresses = sorted(blocks)
    place = 0
    lost = set()
    for one in ordered:
        end = one.address + one.size
        while place < len(addresses) and addresses[place] < one.address:
            lost.add(addresses[place])
            place += 1
        while place < len(addresses) and addresses[place] < end:
            address = addresses[place]
            place += 1
            following = addresses[place] if place < len(addresses) else end
            block = blocks[address]
            room = min(following, end) - address
            block.size = min(block.size, room) or _size(block.requested, room, one, settings)
            one.blocks[address] = block
    return lost | set(addresses[place:])


def _size(requested: int, room: int, one: Range, settings: Settings) -> int:
    """The size of a block with this much room up to the next one."""
    size = min(rounded_bytes(requested, settings.roundup_power2_divisions), room)
    is_whole = settings.max_split_bytes is not None and size >= settings.max_split_bytes
    if not one.is_small and not one.is_expandable and (is_whole or room - size <= SMALL_SIZE):
        return room
    return size
