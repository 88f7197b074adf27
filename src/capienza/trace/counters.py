"""The allocator's counters at a moment of a trace, as a program that logs them would read them on the card.

Legend: current what lives now; peak the most since the last reset; allocated and freed all that came and went since the
last reset of those. The names are those of `torch.cuda.memory_stats`; `large_pool` and `small_pool` add up to `all`.
The events of the trace so far run through the model of the allocator, only when asked and only those that are new.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from capienza.allocator.allocator import Allocator
from capienza.allocator.blocks import Block
from capienza.allocator.device import SEGMENT_ALLOC, SEGMENT_MAP
from capienza.allocator.events import ALLOC, EMPTY_CACHE, FREE
from capienza.allocator.settings import Settings
from capienza.allocator.sizes import SMALL_SEGMENT
from capienza.errors import UsageError, template
from capienza.trace.recording import Recording

ALL, SMALL, LARGE = "all", "small_pool", "large_pool"
BLOCKS, BLOCK_BYTES, ASKED_BYTES = "allocation", "allocated_bytes", "requested_bytes"
SEGMENTS, SEGMENT_BYTES, SPLIT_BYTES = "segment", "reserved_bytes", "inactive_split_bytes"
AS_ALLOCATED = {"active": BLOCKS, "active_bytes": BLOCK_BYTES}
"""No block waits for another stream in a trace, so these two are the same."""
NOT_COUNTED = template(
    "trace.counter-unknown",
    "a trace does not count {counter}, which the program asks for",
    "leave it out of the traced program; allocated, active, requested and reserved bytes are counted",
)
UNCOUNTED = ("inactive_split", "oversize_", SEGMENTS)


class Figure:
    """One counter."""

    __slots__ = ("allocated", "current", "freed", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def add(self, amount: int) -> None:
        """Something came, or with a negative amount went."""
        self.current += amount
        if amount >= 0:
            self.allocated += amount
            self.peak = max(self.peak, self.current)
        else:
            self.freed -= amount


class Stats(dict[str, int]):
    """Counters by name. One that PyTorch has and a trace has not is refused: it would be read as zero."""

    def __missing__(self, name: str) -> int:
        """Also where PyTorch has none of that name."""
        if name.startswith(UNCOUNTED):
            raise UsageError(NOT_COUNTED(counter=name))
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """As `dict.get`, except for those."""
        return self[name] if name in self or name.startswith(UNCOUNTED) else default


class Counters:
    """The counters of one device."""

    def __init__(self, recording: Recording, device: int, settings: Settings) -> None:
        self._recording, self._device, self._done = recording, device, 0
        self._state = Allocator(settings)
        self._state.device.calls = []
        self._blocks: dict[int, Block | None] = {}
        self._figures: dict[tuple[str, str], Figure] = defaultdict(Figure)
        for pool in (ALL, SMALL, LARGE):
            for name in (BLOCKS, BLOCK_BYTES, ASKED_BYTES, *(() if self._is_expandable else (SEGMENTS, SEGMENT_BYTES))):
                self._figures[name, pool] = Figure()
        self._figures[SEGMENT_BYTES, ALL] = Figure()
        self._split_peak = 0

    @property
    def _is_expandable(self) -> bool:
        """Its segments are not counted by pool: pages of both are taken and given back in ranges of any length."""
        return self._state.is_expandable

    def figure(self, name: str) -> Figure:
        """One of them, of all pools together."""
        self._follow()
        return self._figures[name, ALL]

    def reset_peaks(self) -> None:
        """The peaks begin anew from what lives now."""
        self._follow()
        self._split_peak = self._state.inactive_split or 0
        for figure in self._figures.values():
            figure.peak = figure.current

    def reset_accumulated(self) -> None:
        """What came and went is counted anew."""
        self._follow()
        for figure in self._figures.values():
            figure.allocated = figure.freed = 0

    def stats(self) -> Stats:
        """All of them by PyTorch's names."""
        self._follow()
        found = Stats()
        for (name, pool), figure in self._figures.items():
            for told in (name, *(alias for alias, of in AS_ALLOCATED.items() if of == name)):
                found[f"{told}.{pool}.current"], found[f"{told}.{pool}.peak"] = figure.current, figure.peak
                found[f"{told}.{pool}.allocated"], found[f"{told}.{pool}.freed"] = figure.allocated, figure.freed
        state = self._state
        if state.inactive_split is not None:
            found[f"{SPLIT_BYTES}.all.current"], found[f"{SPLIT_BYTES}.all.peak"] = (
                state.inactive_split,
                self._split_peak,
            )
        found["num_device_alloc"], found["num_device_free"] = state.device.allocations, state.device.frees
        # Nothing limits the device of a trace, so nothing was tried again.
        found["num_alloc_retries"] = found["num_ooms"] = found["num_sync_all_streams"] = 0
        found["max_split_size"] = -1 if state.settings.max_split_bytes is None else state.settings.max_split_bytes
        return found

    def _follow(self) -> None:
        """Run the events that have come since the last time."""
        state, blocks = self._state, self._blocks
        events = self._recording.events.get(self._device, [])
        for code, number, size, stream in events[self._done :]:
            if code == ALLOC:
                block = blocks[number] = state.allocate(size, stream) if size > 0 else None
                if block is not None:
                    self._count(block, 1)
            elif code == FREE:
                block = blocks.pop(number)
                if block is not None:
                    self._count(block, -1)
                    state.free(block)
            elif code == EMPTY_CACHE:
                state.empty_cache()
            self._segments()
            self._split_peak = max(self._split_peak, state.inactive_split or 0)
        self._done = len(events)

    def _count(self, block: Block, sign: int) -> None:
        figures = self._figures
        for pool in (ALL, SMALL if block.home.is_small else LARGE):
            figures[BLOCKS, pool].add(sign)
            figures[BLOCK_BYTES, pool].add(sign * block.size)
            figures[ASKED_BYTES, pool].add(sign * block.requested)

    def _segments(self) -> None:
        """What the device was asked for and given back since the last event."""
        calls = self._state.device.calls
        assert calls is not None
        for action, _address, size, _stream, _pool in calls:
            sign = 1 if action in (SEGMENT_ALLOC, SEGMENT_MAP) else -1
            self._figures[SEGMENT_BYTES, ALL].add(sign * size)
            if not self._is_expandable:
                pool = SMALL if size == SMALL_SEGMENT else LARGE
                self._figures[SEGMENT_BYTES, pool].add(sign * size)
                self._figures[SEGMENTS, ALL].add(sign)
                self._figures[SEGMENTS, pool].add(sign)
        calls.clear()
