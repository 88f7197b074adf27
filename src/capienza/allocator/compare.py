"""A recording of a real allocator against the model: the same program, and where the two differ.

The model is given what the program did (allocations, frees, and when memory went back to the device) and decides by
itself which block serves which request and when to ask the device. Of the record it takes one thing more, the address
that the driver chose for a segment that both ask for, since blocks of one size are told apart by address.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence

import msgspec

from capienza.allocator.adopt import DEFAULT_POOL, adopt, chains, pool_of
from capienza.allocator.allocator import Allocator
from capienza.allocator.device import FIRST_ADDRESS, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, Call
from capienza.allocator.expandable import unmap
from capienza.allocator.recording import Entry, Segment
from capienza.allocator.settings import Settings
from capienza.allocator.start import state_at_start

TAKES = (SEGMENT_ALLOC, SEGMENT_MAP)
GIVES = (SEGMENT_FREE, SEGMENT_UNMAP)
KNOWN = (*TAKES, *GIVES, "alloc", "free_requested", "free_completed", "oom", "snapshot")
MOST_DIFFERENCES = 1000


class Difference(msgspec.Struct, frozen=True):
    """Calls to the device that only one of the two made before this line of the history: (action, bytes)."""

    entry: int
    recorded: tuple[tuple[str, int], ...]
    modelled: tuple[tuple[str, int], ...]


class Side(msgspec.Struct, frozen=True):
    """What one of the two did over the whole recording. Sizes in bytes."""

    device_allocations: int
    device_frees: int
    peak_reserved_bytes: int
    final_reserved_bytes: int


class Comparison(msgspec.Struct, frozen=True):
    """A recording and the model beside each other."""

    device: int
    entries: int
    allocations: int
    frees: int
    settings: Settings
    start_reserved_bytes: int
    start_allocated_bytes: int
    """Above zero where the recording begins in the middle of a run."""
    recorded: Side
    modelled: Side
    peak_allocated_bytes: int
    """Blocks in the program's hands, rounded by the model."""
    peak_requested_bytes: int
    same_addresses: int
    """Allocations for which the model chose the very block of the record."""
    differences: tuple[Difference, ...]
    """The first of them; `difference_count` is how many there are."""
    difference_count: int
    segments_only_recorded: tuple[int, ...]
    """Sizes of segments at the end that the other has not."""
    segments_only_modelled: tuple[int, ...]
    lost_blocks: int
    """Blocks of the history that lie in no segment, and frees of blocks never seen."""
    out_of_memory_events: int
    unknown_actions: tuple[tuple[str, int], ...]
    """Lines of a kind that the replay passes over, with their number."""

    @property
    def is_same(self) -> bool:
        """Whether the model asked the device for the same at the same moments, and holds the same at the end."""
        same_segments = not self.segments_only_recorded and not self.segments_only_modelled
        return not self.difference_count and self.recorded == self.modelled and same_segments


def compare(segments: Sequence[Segment], entries: Sequence[Entry], settings: Settings, device: int = 0) -> Comparison:
    """Replay one device's history and say where model and record differ."""
    walk = _Walk(segments, entries, settings)
    state = walk.state
    start_reserved_bytes, start_allocated_bytes = state.device.reserved_bytes, state.allocated
    walk.run(entries)
    counts = Counter(one.action for one in entries)
    final = sum(one.total_size for one in segments)
    recorded_sizes = Counter(one.total_size for one in segments)
    modelled_sizes = Counter(sum(block.size for block in chain) for chain in chains(state, walk.blocks.values()))
    return Comparison(
        device=device,
        entries=len(entries),
        allocations=counts["alloc"],
        frees=counts["free_completed"],
        settings=settings,
        start_reserved_bytes=start_reserved_bytes,
        start_allocated_bytes=start_allocated_bytes,
        recorded=Side(_total(counts, TAKES), _total(counts, GIVES), walk.recorded_peak, final),
        modelled=Side(state.device.allocations, state.device.frees, walk.modelled_peak, state.device.reserved_bytes),
        peak_allocated_bytes=walk.allocated_peak,
        peak_requested_bytes=walk.requested_peak,
        same_addresses=walk.same_addresses,
        differences=tuple(walk.differences[:MOST_DIFFERENCES]),
        difference_count=len(walk.differences),
        segments_only_recorded=tuple(sorted((recorded_sizes - modelled_sizes).elements())),
        segments_only_modelled=tuple(sorted((modelled_sizes - recorded_sizes).elements())),
        lost_blocks=walk.lost,
        out_of_memory_events=counts["oom"],
        unknown_actions=tuple(sorted((action, count) for action, count in counts.items() if action not in KNOWN)),
    )


def _total(counts: Counter[str], actions: Sequence[str]) -> int:
    return sum(counts[action] for action in actions)


class _Walk:
    """One pass over the history, with the model beside it."""

    def __init__(self, segments: Sequence[Segment], entries: Sequence[Entry], settings: Settings) -> None:
        start = state_at_start(segments, entries, settings)
        self.start_lost = start.lost
        self.lost = len(start.lost)
        self.state = Allocator(settings)
        self.blocks = adopt(self.state, start)
        self.let_go = {block.address: ticket for ticket, block in self.state.waiting.items()}
        for address in self.let_go:
            del self.blocks[address]
        self.calls: list[Call] = []
        self.device = self.state.device
        self.device.calls = self.calls
        highest = max((*(one.address + one.size for one in start.ranges), *(one.addr for one in entries)), default=0)
        self.device.next_address = max(FIRST_ADDRESS, 2 * highest)
        self.taken = {one.address: one.size for one in start.ranges}
        self.addresses = sorted(self.taken)
        """Where segments of cudaMalloc lie in the model."""
        self.differences: list[Difference] = []
        self.same_addresses = 0
        self.recorded_bytes = self.recorded_peak = self.modelled_peak = self.device.reserved_bytes
        self.allocated_peak, self.requested_peak = self.state.allocated, self.state.requested

    def run(self, entries: Sequence[Entry]) -> None:
        """Walk through."""
        pending: list[Entry] = []
        for index, entry in enumerate(entries):
            action = entry.action
            if action in TAKES:
                self.recorded_bytes += entry.size
                self.recorded_peak = max(self.recorded_peak, self.recorded_bytes)
                pending.append(entry)
            elif action in GIVES:
                self.recorded_bytes -= entry.size
                self._give_back(entry, is_first=index == 0 or entries[index - 1].action not in GIVES)
                pending.append(entry)
            elif action == "alloc":
                self._allocate(entry, next((one for one in pending if one.action in TAKES), None))
                self._match(index, pending)
                pending = []
            elif action == "free_requested":
                self._let_go(entry.addr)
            elif action == "free_completed":
                ticket = self.let_go.pop(entry.addr, None)
                if ticket is not None:
                    self.state.complete(ticket)
        self._match(len(entries), pending)

    def _allocate(self, entry: Entry, hint: Entry | None) -> None:
        """The model serves a request; a segment that it asks for too gets the address of the record."""
        if not entry.size:
            self.lost += 1
            return
        if entry.addr in self.blocks:
            self._let_go(entry.addr)
            self.state.complete(self.let_go.pop(entry.addr))
            self.lost += 1
        state, device = self.state, self.device
        state.pool = pool_of(state, entry.pool_id)
        address = device.next_address
        is_hinted = hint is not None and not self.differences and self._is_room(hint)
        if hint is not None and is_hinted:
            device.next_address = hint.addr
        block = state.allocate(entry.size, entry.stream)
        assert block is not None
        if is_hinted:
            device.next_address = address
        self.blocks[entry.addr] = block
        self.same_addresses += block.address == entry.addr
        self.modelled_peak = max(self.modelled_peak, device.reserved_bytes)
        self.allocated_peak = max(self.allocated_peak, state.allocated)
        self.requested_peak = max(self.requested_peak, state.requested)

    def _is_room(self, hint: Entry) -> bool:
        """Whether the model has no segment there."""
        place = bisect_left(self.addresses, hint.addr + hint.size)
        before = self.addresses[place - 1] if place else None
        return before is None or before + self.taken[before] <= hint.addr

    def _let_go(self, address: int) -> None:
        block = self.blocks.pop(address, None)
        if block is None:
            self.lost += address not in self.start_lost
        else:
            self.let_go[address] = self.state.let_go(block)

    def _give_back(self, entry: Entry, is_first: bool) -> None:
        """Memory went back: all that was free, or (limits of the settings, a private pool) what the record names."""
        settings, state = self.settings, self.state
        if entry.pool_id == DEFAULT_POOL and not settings.max_split_bytes and not settings.garbage_collection_threshold:
            if is_first:
                state.empty_cache()
            return
        pool = pool_of(state, entry.pool_id)
        for home in [home for (stream, _), home in pool.homes.items() if stream == entry.stream]:
            for block in home.in_order():
                inside = block.address <= entry.addr and entry.addr + entry.size <= block.address + block.size
                if inside and block.base is not None:
                    unmap(block, self.device)
                elif inside and block.is_whole:
                    self.device.release(block)

    @property
    def settings(self) -> Settings:
        """The model's options."""
        return self.state.settings

    def _match(self, index: int, pending: Sequence[Entry]) -> None:
        """Both asked the device for the same since the last allocation, or this is a difference."""
        if not pending and not self.calls:
            return
        recorded = Counter((one.action, one.size) for one in pending)
        modelled = Counter((action, size) for action, _, size, _, _ in self.calls)
        for action, address, size, _, _ in self.calls:
            if action == SEGMENT_ALLOC:
                self.taken[address] = size
                insort(self.addresses, address)
            elif action == SEGMENT_FREE and self.taken.pop(address, None) is not None:
                del self.addresses[bisect_left(self.addresses, address)]
        self.calls.clear()
        if recorded != modelled:
            only = (
                tuple(sorted((one - other).elements())) for one, other in ((recorded, modelled), (modelled, recorded))
            )
            self.differences.append(Difference(index, *only))
