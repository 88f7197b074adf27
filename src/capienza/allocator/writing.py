"""A replay written as a memory snapshot, which PyTorch's memory viewer opens like one of a real card.

Source of the form: _snapshot in torch/cuda/memory.py and what torch/cuda/_memory_viz.py reads of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from capienza.allocator.adopt import chains
from capienza.allocator.allocator import Allocator
from capienza.allocator.blocks import Block
from capienza.allocator.events import ALLOC, EMPTY_CACHE, FREE, FREE_REQUESTED, MARK, Event
from capienza.allocator.recording import ALLOCATED, WAITING
from capienza.allocator.replay import DEFAULTS, switch_pool
from capienza.allocator.settings import Settings
from capienza.allocator.sizes import DIVISION_INTERVALS, rounded_bytes
from capienza.files import write_whole

Frames = Callable[[int], Sequence[str]]
Category = Callable[[int], str | None]
UNKNOWN = "unknown"
"""A category that the viewer wants to meet wherever there are any; a line of a segment always has it."""


def no_frames(event: int) -> Sequence[str]:  # noqa: ARG001 - one of many
    """Nothing is known of where an event comes from."""
    return ()


def make_snapshot(
    events: Iterable[Event],
    settings: Settings = DEFAULTS,
    capacity_bytes: int | None = None,
    phases: Sequence[str] = (),
    frames: Frames = no_frames,
    category: Category | None = None,
) -> dict[str, Any]:
    """The dictionary of a snapshot: the history of these events and the segments at their end, or where memory ends.

    `frames` gives the names of an allocation's frames by the index of its event, innermost first (the operation, then
    its module outwards); the phase is added last. `category` colours it (parameter, gradient, activation, ...). The
    times are the indices. The events are those that `replay` takes; some 500 B of memory go to each.
    """
    history = _History(settings, capacity_bytes, frames, category)
    for index, event in enumerate(events):
        if event[0] == MARK:
            history.phase = phases[event[1]]
        elif not history.step(index, event):
            break
    return {
        "segments": history.segments(),
        "device_traces": [history.trace],
        "allocator_settings": _settings(settings),
        "external_annotations": [],
    }


def write_snapshot(path: Path, snapshot: dict[str, Any]) -> None:
    """Write it as PyTorch does: a pickle. Raises `UnreachableError` if it cannot be written; no half of it is left."""
    write_whole(path, lambda file: pickle.dump(snapshot, file, protocol=4))


class _History:
    """The lines of the history as the events run."""

    def __init__(
        self, settings: Settings, capacity_bytes: int | None, frames: Frames, category: Category | None
    ) -> None:
        self.state = Allocator(settings, capacity_bytes)
        self.calls = self.state.device.calls = []
        self.frames, self.category = frames, category
        self.phase = ""
        self.trace: list[dict[str, Any]] = []
        self.blocks: dict[int, Block] = {}
        self.let_go: dict[int, tuple[int, dict[str, Any]]] = {}
        """Tickets of blocks let go, each with its line: joined with others a block forgets where it began."""
        self.origin: dict[Block, list[dict[str, Any]]] = {}
        self.known_frames: dict[tuple[str, ...], list[dict[str, Any]]] = {}

    def step(self, index: int, event: Event) -> bool:
        """One event; False when memory ends."""
        code, block, size, stream = event
        state = self.state
        if code == ALLOC and size:
            frames = self._frames(index)
            got = state.allocate(size, stream)
            self._told_calls(index, frames)
            if got is None:
                free = (state.device.capacity_bytes or 0) - state.device.reserved_bytes
                rounded = rounded_bytes(size, state.divisions)
                line = {"action": "oom", "device_free": free, "size": rounded, "stream": stream}
                self.trace.append({**line, "frames": frames, "time_us": index, "pool_id": (0, state.pool.number)})
                return False
            self.blocks[block], self.origin[got] = got, frames
            self._tell("alloc", got, index)
            if self.category is not None:
                self.trace[-1]["category"] = self.category(index) or UNKNOWN
        elif code in (FREE, FREE_REQUESTED) and block in self.blocks:
            gone = self.blocks.pop(block)
            self._tell("free_requested", gone, index)
            self.let_go[block] = (state.let_go(gone), self.trace[-1])
            if code == FREE:
                self._complete(block, index)
        elif code == FREE and block in self.let_go:
            self._complete(block, index)
        elif code == EMPTY_CACHE:
            state.empty_cache()
            self._told_calls(index, [])
        elif code not in (ALLOC, FREE, FREE_REQUESTED):
            switch_pool(state, code, block, size)
        return True

    def segments(self) -> list[dict[str, Any]]:
        """What stands there now."""
        return [self._segment(chain) for chain in chains(self.state, self.blocks.values())]

    def _complete(self, number: int, index: int) -> None:
        ticket, line = self.let_go.pop(number)
        if ticket in self.state.waiting:
            self.state.complete(ticket)
            self.trace.append({**line, "action": "free_completed", "time_us": index})

    def _tell(self, action: str, block: Block, index: int) -> None:
        home = block.home
        self.trace.append(
            {
                "action": action,
                "addr": block.address,
                "size": block.requested,
                "stream": home.stream,
                "frames": self.origin[block],
                "time_us": index,
                "pool_id": (0, home.pool.number),
            }
        )

    def _told_calls(self, index: int, frames: list[dict[str, Any]]) -> None:
        """Calls to the device become lines, after what they waited for."""
        if len(self.let_go) > len(self.state.waiting):
            for number, (ticket, line) in list(self.let_go.items()):
                if ticket not in self.state.waiting:
                    del self.let_go[number]
                    self.trace.append({**line, "action": "free_completed", "time_us": index})
        for action, address, size, stream, pool in self.calls:
            line = {"action": action, "addr": address, "size": size, "stream": stream, "frames": frames}
            if self.category is not None:
                line["category"] = UNKNOWN
            self.trace.append({**line, "time_us": index, "pool_id": (0, pool)})
        self.calls.clear()

    def _frames(self, index: int) -> list[dict[str, Any]]:
        names = (*self.frames(index), *((self.phase,) if self.phase else ()))
        known = self.known_frames.get(names)
        if known is None:
            known = self.known_frames[names] = [{"name": name, "filename": "", "line": 0} for name in names]
        return known

    def _segment(self, chain: list[Block]) -> dict[str, Any]:
        home = chain[0].home
        waiting = set(self.state.waiting.values())
        blocks = [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested if block.active else 0,
                "state": WAITING[0] if block in waiting else ALLOCATED if block.active else "inactive",
                "frames": self.origin[block] if block.active else [],
            }
            for block in chain
        ]
        return {
            "device": 0,
            "address": chain[0].address,
            "total_size": sum(block.size for block in chain),
            "allocated_size": sum(one["size"] for one in blocks if one["state"] == ALLOCATED),
            "active_size": sum(block.size for block in chain if block.active),
            "requested_size": sum(block.requested for block in chain if block.active),
            "stream": home.stream,
            "segment_type": "small" if home.is_small else "large",
            "segment_pool_id": (0, home.pool.number),
            "is_expandable": chain[0].base is not None,
            "frames": [],
            "blocks": blocks,
        }


def _settings(settings: Settings) -> dict[str, Any]:
    divisions = settings.roundup_power2_divisions or (0,) * DIVISION_INTERVALS
    return {
        "max_split_size": -1 if settings.max_split_bytes is None else settings.max_split_bytes,
        "max_non_split_rounding_size": settings.max_non_split_rounding_bytes,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        "large_segment_size": settings.large_segment_bytes,
        "roundup_power2_divisions": {str(2**place): value for place, value in enumerate(divisions)},
    }
