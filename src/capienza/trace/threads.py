"""Threads that a traced program starts: a trace follows the one that it runs on.

PyTorch's modes belong to a thread, so what another does with the card would be missing from every figure. It may work
in main memory, as one that reads data does; at its first operation on the card the trace ends and says so.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from capienza.errors import UsageError, template
from capienza.trace.tracker import Tracker
from capienza.trace.watch import TraceLimit

Change = tuple[Any, str, Any]
ANOTHER_THREAD = template(
    "trace.another-thread",
    "{op} ran on a thread that the program started: a trace follows one thread",
    "call it on the thread of the step; reading data in another thread is no obstacle",
)
DATA_PARALLEL = template(
    "trace.data-parallel",
    "torch.nn.DataParallel is not supported: it runs copies of the model on several GPUs in threads of its own",
    "trace the module without it, with the rows of one GPU; or use DistributedDataParallel with a world_size",
)


def changes(tracker: Tracker) -> list[Change]:
    """What is changed so that no thread works on the card unseen."""
    real_start = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        real_run = thread.run

        def run() -> None:
            try:
                with _Elsewhere(tracker):
                    real_run()
            except TraceLimit:
                return

        thread.run = run  # type: ignore[method-assign]
        real_start(thread)

    def refuse(*_args: Any, **_named: Any) -> None:
        raise UsageError(DATA_PARALLEL())

    return [(threading.Thread, "start", start), (torch.nn.DataParallel, "__init__", refuse)]


class _Elsewhere(TorchDispatchMode):
    """Lets operations in main memory pass."""

    def __init__(self, tracker: Tracker) -> None:
        super().__init__()
        self.tracker = tracker

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Where it is traced that something is on the card, it ends here."""
        named = dict(kwargs) if kwargs else {}
        device, kind = named.get("device"), self.tracker.device_type
        is_there = kind == "cpu" or (device is not None and torch.device(device).type == kind)
        if _running(self.tracker) and (is_there or any(issubclass(one, FakeTensor) for one in types)):
            self.tracker.refused = ANOTHER_THREAD(op=str(func))
            raise self.tracker.watch.end()
        return func(*args, **named)


def _running(tracker: Tracker) -> bool:
    """A thread may outlive the trace."""
    return tracker.watch.is_open
