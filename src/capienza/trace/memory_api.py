"""What a traced program is told when it asks how much memory it holds: what the allocator would say at that moment.

PyTorch's own functions (`memory_reserved`, `max_memory_allocated`, ...) look their figures up in `memory_stats`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.accelerator
import torch.cuda.memory

from capienza.allocator.settings import Settings
from capienza.errors import template
from capienza.trace.counters import BLOCK_BYTES, SEGMENT_BYTES, Counters
from capienza.trace.tracker import Tracker

Change = tuple[Any, str, Any]
FREE_MEMORY = template(
    "trace.free-memory",
    "the program asked how much memory is free: it was told the total less what the allocator holds; on a card the "
    "CUDA context and other processes take their part too",
)


class _Memory:
    """What a program asks of its memory."""

    def __init__(self, tracker: Tracker, settings: Settings, total_bytes: int) -> None:
        self.tracker, self.settings, self.total_bytes = tracker, settings, total_bytes
        self._of: dict[int, Counters] = {}

    def stats(self, *device: Any, **named: Any) -> dict[str, int]:
        """Every counter of that device by its name in PyTorch."""
        return self._counters(device, named).stats()

    def reset(self, *device: Any, **named: Any) -> None:
        """Peaks are counted from here on."""
        self._counters(device, named).reset_peaks()

    def reset_accumulated(self, *device: Any, **named: Any) -> None:
        """What came and went is counted from here on."""
        self._counters(device, named).reset_accumulated()

    def free(self, *device: Any, **named: Any) -> tuple[int, int]:
        """What is free of the device, and its total."""
        self.tracker.assumed[FREE_MEMORY.code] = FREE_MEMORY()
        held = self._counters(device, named).figure(SEGMENT_BYTES).current
        return max(0, self.total_bytes - held), self.total_bytes

    def summary(self, *device: Any, **named: Any) -> str:
        """A line in place of PyTorch's table."""
        counters = self._counters(device[:1], {name: value for name, value in named.items() if name == "device"})
        live, held = (counters.figure(name).current for name in (BLOCK_BYTES, SEGMENT_BYTES))
        return f"{live} B allocated, {held} B reserved"

    def _counters(self, device: tuple[Any, ...], named: dict[str, Any]) -> Counters:
        index = self.tracker.place.index(*(device or named.values() or (None,)))
        return self._of.setdefault(index, Counters(self.tracker.recording, index, self.settings))


def changes(tracker: Tracker, settings: Settings, total_bytes: int) -> list[Change]:
    """What is changed for the program to read the counters of the trace."""
    memory = _Memory(tracker, settings, total_bytes)
    answers = {
        "memory_stats": memory.stats,
        "memory_summary": memory.summary,
        "mem_get_info": memory.free,
        "get_memory_info": memory.free,
        "reset_peak_memory_stats": memory.reset,
        "reset_accumulated_memory_stats": memory.reset_accumulated,
        "empty_cache": tracker.recording.empty_cache,
    }
    # Each is there under its own name, and where PyTorch's functions look for it.
    places = (torch.cuda, torch.cuda.memory, torch.accelerator, getattr(torch.accelerator, "memory", None))
    return [(place, name, answer) for place in places for name, answer in answers.items() if hasattr(place, name)]
