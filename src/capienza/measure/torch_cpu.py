"""PyTorch's allocator in main memory, which keeps no statistics: its profiler reports every block taken and given back.

Legend: level bytes that tensors hold at a moment. The profiler is one per thread and makes a step slower, so it runs
only inside `watching`, from before the model is loaded: a block that was taken unwatched is not in the level. It is
stopped and started again between phases, where nothing is allocated, and so sees all of them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from capienza.errors import MissingPartError, UsageError, template
from capienza.measure.meter import HOST, Meter

METER = Meter("cpu_allocated", HOST, "torch.autograd.profiler memory events of the CPU allocator")

NO_TORCH = template(
    "measure.no-torch",
    "the CPU allocator of PyTorch is to be watched, and PyTorch is not installed",
    "install torch, or leave cpu_allocator() out",
)
OTHER_PROFILER = template(
    "measure.other-profiler",
    "another profiler of PyTorch is running in this thread, and there can be only one",
    "stop it before cpu_allocator(), or leave cpu_allocator() out",
)


class _Watch:
    """The running profiler, and the blocks that were taken since it was first started, by address."""

    def __init__(self, profiler: Any) -> None:
        self.profiler = profiler
        self.blocks: dict[int, int] = {}
        self.level = 0
        self.running: Any = None

    def start(self) -> None:
        self.running = self.profiler(profile_memory=True)
        self.running.__enter__()

    def stop(self) -> int:
        """The highest level since the start. Blocks of an earlier watch are not of this one."""
        self.running.__exit__(None, None, None)
        events = sorted(_allocations(self.running.kineto_results.experimental_event_tree()), key=itemgetter(0))
        highest = self.level
        for _, address, size in events:
            if size > 0:
                self.blocks[address] = size
                self.level += size
                highest = max(highest, self.level)
            else:
                self.level -= self.blocks.pop(address, 0)
        return highest


_watch: _Watch | None = None


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Watch the allocator. Raises `MissingPartError` without PyTorch, `UsageError` beside another profiler."""
    global _watch
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise MissingPartError(NO_TORCH()) from error
    if torch.autograd._profiler_enabled():
        raise UsageError(OTHER_PROFILER())
    # The profiler's library otherwise prints a line for every start and stop.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    _watch = _Watch(torch.autograd.profiler.profile)
    _watch.start()
    try:
        yield
    finally:
        watch, _watch = _watch, None
        watch.stop()


def take() -> dict[Meter, int]:
    """The highest level since the last call; empty outside `watching`."""
    if _watch is None:
        return {}
    peak = _watch.stop()
    _watch.start()
    return {METER: peak}


def _allocations(events: Iterable[Any]) -> Iterator[tuple[int, int, int]]:
    """Time, address and size of every block in main memory; the size is negative where it was given back."""
    for event in events:
        if event.tag.name == "Allocation" and event.extra_fields.device.type == "cpu":
            yield event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size
        yield from _allocations(event.children)
