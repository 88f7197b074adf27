"""The last step of a program, operation by operation: for real on the CPU, or traced on fake CPU tensors.

Legend: `live` holds the bytes alive when each operation has ended (the boundary curve), `base` those before the step.
`raw_peak` is the highest count of the real allocator, inside operations too; `scratch` says of the operation that was
running then how much of it is neither alive before it nor after it. `views` holds the places of operations that only
make a view: autograd replays views of fake tensors by their own function and those of real ones by `as_strided` or not
at all, which moves no memory.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from capienza.allocator.events import ALLOC, FREE
from capienza.trace import run
from capienza.trace.gradients import WRITTEN_BY_AUTOGRAD
from capienza.trace.machine import Machine
from capienza.trace.tracker import HANDLERS
from truth.counter import Counter
from truth.programs import Program

SEED = 7
STASH_BYTES = torch.get_rng_state().nbytes
TOP = torch.ops.aten.topk.default
NO_CARD = Machine("CPU", (8, 0), 0)


class Curve(msgspec.Struct):
    """What one step did to memory, in bytes."""

    base: int
    ops: list[str]
    live: list[int]
    raw_peak: int = 0
    raw_op: str = ""
    scratch: int = 0
    guesses: int = 0
    views: list[int] = []

    @property
    def peak(self) -> int:
        """The highest count at a boundary."""
        return max([self.base, *self.live])


class _Recorder(TorchDispatchMode):
    """Writes down each operation and what is alive after it."""

    def __init__(self, counter: Counter, *, evenly: bool) -> None:
        super().__init__()
        self.counter = counter
        self.evenly = evenly
        self.curve = Curve(base=counter.live_bytes, ops=[], live=[])

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        counter, curve = self.counter, self.curve
        self.between()
        before = counter.live_bytes
        counter.restart()
        out = func(*args, **(kwargs or {}))
        after = counter.live_bytes
        if self.evenly and func is TOP:
            _spread(out[1], args[0].shape[-1])
        curve.ops.append(str(func))
        curve.live.append(after)
        if counter.peak_bytes > curve.raw_peak:
            curve.raw_peak, curve.raw_op = counter.peak_bytes, str(func)
            curve.scratch = counter.peak_bytes - max(before, after)
        counter.restart()
        return out

    def between(self) -> None:
        """What was allocated behind the dispatcher since the last operation."""
        if self.counter.peak_bytes > self.curve.raw_peak:
            self.curve.raw_peak, self.curve.raw_op, self.curve.scratch = self.counter.peak_bytes, "between", 0


def _spread(chosen: torch.Tensor, classes: int) -> None:
    """Write over what a router chose: every class as often as any other. Nothing is taken of the counted memory."""
    evenly = np.arange(chosen.numel()).reshape(chosen.shape) % classes
    with torch._C._DisableTorchDispatch():
        chosen.copy_(torch.from_numpy(evenly))


@functools.cache
def _counter() -> Counter:
    counter = Counter()
    counter.install()
    return counter


def real(program: Program, steps: int = 2, *, evenly: bool = False) -> Curve:
    """Run a program on the CPU and record its last step. The counting allocator stays until the process ends.

    `evenly`: in that step every expert gets as many tokens as any other, as the trace assumes.
    """
    with _last_step(program, steps) as (counter, last):
        with _Recorder(counter, evenly=evenly) as recorder:
            last()
        recorder.between()
    return _with_views(recorder.curve)


def bare(program: Program, steps: int = 2) -> Curve:
    """The same without looking at operations, which autograd notices: base and raw peak only."""
    with _last_step(program, steps) as (counter, last):
        base = counter.live_bytes
        last()
    return Curve(base, [], [], raw_peak=counter.peak_bytes)


@contextlib.contextmanager
def _last_step(program: Program, steps: int) -> Iterator[tuple[Counter, Callable[[], None]]]:
    """The counter, restarted when all steps but the last are done, and the last step."""
    build, step = program
    torch.manual_seed(SEED)
    counter = _counter()
    gc.collect()
    with torch.autograd.set_multithreading_enabled(False):
        state = build()
        for _ in range(steps - 1):
            step(state)
        gc.collect()
        counter.restart()
        yield counter, functools.partial(step, state)


def traced(program: Program, steps: int = 2, *, watched: bool = True) -> Curve:
    """Trace a program on fake CPU tensors; its last step.

    `watched`: as the real run is whose operations are recorded. Autograd then writes nowhere in place.
    """
    build, step = program
    starts: list[tuple[int, int]] = []

    def counted(state: Any) -> None:
        gc.collect()
        tracker = run._running[0]
        starts.append((len(tracker.op_names), len(tracker.recording.events[0])))
        step(state)

    handlers = {func: own for func, own in HANDLERS.items() if not (watched and func in WRITTEN_BY_AUTOGRAD)}
    with (
        mock.patch.multiple(torch, get_rng_state=_stashed, set_rng_state=_put_back),
        mock.patch.dict(HANDLERS, handlers, clear=True),
    ):
        found = run.trace(build, counted, steps=steps, machine=NO_CARD, device_type=run.CPU)
    live = _live(found.recording.events[0])
    first_op, first_event = starts[-1]
    curve = [live[end - 1] for end in found.op_ends[first_op:]]
    guesses = sum(guess.count for guess in found.guesses)
    return _with_views(Curve(live[first_event - 1], found.op_names[first_op:], curve, guesses=guesses))


def _with_views(curve: Curve) -> Curve:
    curve.views = [index for index, op in enumerate(curve.ops) if _only_views(op)]
    return curve


@functools.cache
def _only_views(op: str) -> bool:
    """Does it return its argument's storage, unwritten?"""
    space, name, overload = op.split(".")
    schema = getattr(getattr(getattr(torch.ops, space), name), overload)._schema
    aliases = [result.alias_info for result in schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _stashed() -> torch.Tensor:
    """What checkpointing keeps of the random state of the CPU. It is made behind the dispatcher: no operation is seen.

    On a GPU it is no memory of the GPU, so the trace knows nothing of it.
    """
    state = torch.empty(STASH_BYTES, dtype=torch.uint8)
    tracker = run._running[0]
    tracker.op_names.pop()
    tracker.op_ends.pop()
    return state


def _put_back(_state: torch.Tensor) -> None:
    """It has no values to put back."""


def _live(events: list[tuple[int, int, int, int]]) -> list[int]:
    """Bytes alive after each event."""
    alive, after = 0, []
    sizes: dict[int, int] = {}
    for code, block, size, _ in events:
        if code == ALLOC:
            sizes[block] = size
            alive += size
        elif code == FREE:
            alive -= sizes.pop(block)
        after.append(alive)
    return after


def counted_twice(program: Program, steps: int = 2) -> dict[str, int]:
    """The peak from nothing to the end of the steps, by the counter and by the memory events of torch's profiler."""
    build, step = program
    counter = _counter()
    counter.restart()
    with (
        torch.autograd.set_multithreading_enabled(False),
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler,
    ):
        state = build()
        for _ in range(steps):
            step(state)
    live = peak = changes = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
            changes += 1
    return {"counter": counter.peak_bytes, "profiler": peak, "changes": changes}
