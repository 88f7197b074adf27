"""Run a program on fake tensors and write down what it holds."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import capienza.trace.in_place
import capienza.trace.reads
import capienza.trace.shapes  # noqa: F401 - their handlers
from capienza.allocator.settings import Settings
from capienza.errors import CapienzaError, InputError, Message, UsageError, template
from capienza.trace import attention, attention_packages, guard, norms, patches, probe, quantised, untraceable
from capienza.trace.attention_call import Call, Choice
from capienza.trace.declared import declared
from capienza.trace.guesses import Guess, Routing
from capienza.trace.kernels_call import Card
from capienza.trace.machine import Machine
from capienza.trace.recording import Recording
from capienza.trace.scene import CACHE, Scene
from capienza.trace.tracker import Progress, Tracker, plain
from capienza.trace.watch import TraceLimit, Watch

State = TypeVar("State")
CUDA, CPU = "cuda", "cpu"
DEFAULTS = Settings()

STOPPED = template(
    "trace.stopped",
    "the program stopped{where} at {op}: {error}",
    "run it once for real with a small size: if it stops there too, mend the program; "
    "if it does not, this operation cannot be traced",
)
IN_MODULE = template("trace.in-module", " in module {module}")
LIMIT = template(
    "trace.limit",
    "the trace did not end: {ops} operations in {seconds} s, the last {op} in module {module}",
    "give it a larger limit, or fewer steps; a loop that waits for a value never ends on fake tensors",
)
NOTHING_THERE = template(
    "trace.nothing-there",
    "the program put no tensor on {device}",
    'make the model and its inputs on "{device}"; `torch.cuda.is_available()` is True in the program\'s own modules',
)
ONCE = template("trace.once", "a trace is running in this process already", "end it first; traces do not nest")
NO_STEPS = template(
    "trace.no-steps", "{steps} steps were asked for", "ask for one or more; the second shows the steady peak"
)
_one_at_a_time = threading.Lock()
_running: list[Tracker] = []


class Traced(msgspec.Struct):
    """What a program did: blocks and events, operations in order, and what was assumed."""

    recording: Recording
    device_type: str
    op_names: list[str]
    op_ends: list[int]
    """Events of the first device that had happened when each operation ended."""
    guesses: tuple[Guess, ...]
    kernels: tuple[tuple[str, int], ...]
    """Attention kernels that were assumed, and how often."""
    assumed: tuple[Message, ...]
    unknown: tuple[Message, ...]
    warnings: tuple[Message, ...]
    seconds: float
    rank: int | None = None
    """Which of several processes it was."""


def trace(
    build: Callable[[], State],
    step: Callable[[State], object],
    *,
    steps: int,
    machine: Machine,
    device_type: str = CUDA,
    settings: Settings = DEFAULTS,
    routing: Routing = "balanced",
    most_ops: int = 0,
    most_seconds: float = 0,
    progress: Progress | None = None,
    around: Callable[[Tracker], contextlib.AbstractContextManager[object]] | None = None,
) -> Traced:
    """Build the program's state and run its step so many times, all on fake tensors.

    `settings` are those of the allocator whose counters the program may read.
    `around` is put in place before the program is built, and taken away after it.
    Raises `UsageError` where one runs already, or nothing was put on the device; `InputError` where the program stops
    with an error or does not end.
    """
    if steps < 1:
        raise UsageError(NO_STEPS(steps=steps))
    if not _one_at_a_time.acquire(blocking=False):
        raise UsageError(ONCE())
    try:
        return _traced(
            build, step, steps, machine, device_type, settings, routing, most_ops, most_seconds, progress, around
        )
    finally:
        _one_at_a_time.release()


def _traced(
    build: Callable[[], State],
    step: Callable[[State], object],
    steps: int,
    machine: Machine,
    device_type: str,
    settings: Settings,
    routing: Routing,
    most_ops: int,
    most_seconds: float,
    progress: Progress | None,
    around: Callable[[Tracker], contextlib.AbstractContextManager[object]] | None,
) -> Traced:
    warnings = []
    wanted = device_type
    if wanted == CUDA and not probe.works():
        warnings.append(probe.warning())
        device_type = CPU
    recording = Recording()
    scene = Scene(recording)
    watch = Watch(most_seconds)
    tracker = Tracker(device_type, scene, routing, most_ops, watch, progress, _card(machine, device_type))
    tracker.assumed |= {str(message): message for message in machine.assumed}
    chosen: Counter[str] = Counter()
    began = time.monotonic()
    _running.append(tracker)
    try:
        with _stage(tracker, machine, settings, chosen, around):
            _play(tracker, build, step, steps)
            scene.label()
    except (Exception, SystemExit, TraceLimit) as error:
        # The program may have made another error of the limit's.
        if tracker.refused is not None:
            raise UsageError(tracker.refused) from None
        if watch.is_over:
            raise InputError(_limit(tracker, time.monotonic() - began)) from None
        if isinstance(error, CapienzaError):
            raise
        raise InputError(_stopped(tracker, error)) from error
    finally:
        _running.clear()
    paged = sum(quantised.paged_bytes(optimizer) for optimizer in scene.optimizers)
    if paged:
        tracker.unknown[quantised.PAGED.code] = quantised.PAGED(size_bytes=paged)
    if not recording.sizes:
        raise UsageError(NOTHING_THERE(device=wanted))
    return Traced(
        recording=recording,
        device_type=device_type,
        op_names=[str(name) for name in tracker.op_names],
        op_ends=tracker.op_ends,
        guesses=tracker.guesses.all(),
        kernels=tuple(chosen.items()),
        assumed=tuple(tracker.assumed.values()),
        unknown=tuple(tracker.unknown.values()),
        warnings=tuple(warnings),
        seconds=time.monotonic() - began,
    )


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Say from inside a traced program in which phase it is. Outside a trace nothing happens."""
    if not _running:
        yield
        return
    with _running[0].scene.said(name):
        yield


def enter(name: str) -> None:
    """Say in which phase the program is from here on, until it says another."""
    if _running:
        scene = _running[0].scene
        scene.told = [name]
        scene.enter(name)


def keep_as_cache(*tensors: torch.Tensor) -> None:
    """Say that these are a cache of keys and values."""
    for tensor in tensors if _running else ():
        _running[0].scene.mark(tensor, CACHE, None)


def _play(tracker: Tracker, build: Callable[[], State], step: Callable[[State], object], steps: int) -> None:
    scene = tracker.scene
    scene.mark = _marker(tracker)
    with patches.in_libraries(scene):
        state = tracker.watch.run(build)
    # The modules it needs may have been imported only while it was built.
    with patches.in_libraries(scene):
        scene.has_begun = True
        for _ in range(steps):
            tracker.watch.run(functools.partial(step, state))
            scene.label()


@contextlib.contextmanager
def _stage(
    tracker: Tracker,
    machine: Machine,
    settings: Settings,
    chosen: Counter[str],
    around: Callable[[Tracker], contextlib.AbstractContextManager[object]] | None,
) -> Iterator[None]:
    """Everything that has to be in place; all of it is taken away again."""
    with contextlib.ExitStack() as stack:
        if tracker.device_type == CUDA:
            stack.enter_context(guard.cuda_accepted())
            stack.enter_context(norms.fused_on_cuda())
            stack.enter_context(declared())
            choose = _choosing(tracker, chosen)
            stack.enter_context(attention.installed(machine.capability, choose))
            stack.enter_context(attention_packages.installed(machine.capability, choose))
        stack.enter_context(_collecting())
        stack.enter_context(_quiet())
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(patches.patched(tracker, machine, settings))
        if around is not None:
            stack.enter_context(around(tracker))
        stack.enter_context(tracker.scene.watching())
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(tracker)
        yield


@contextlib.contextmanager
def _collecting() -> Iterator[None]:
    """Cycles are collected as in any program: they delay deaths there too."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.enable()
    try:
        yield
    finally:
        if not was_enabled:
            gc.disable()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch logs a traceback before an operation refuses fake arguments; the error is told anyway."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    was_off, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was_off


def _card(machine: Machine, device_type: str) -> Card | None:
    """The card whose kernels run; on cpu they are not those of a card."""
    if device_type != CUDA:
        return None
    major, minor = torch.__version__.split(".")[:2]
    return Card(machine.capability, (int(major), int(minor)), machine.multiprocessors)


def _choosing(tracker: Tracker, chosen: Counter[str]) -> Callable[[Choice, Call], None]:
    def choose(choice: Choice, _call: Call) -> None:
        chosen[choice.kernel or "none"] += 1
        for message in choice.assumed:
            tracker.assumed[str(message)] = message

    return choose


def _marker(tracker: Tracker) -> Callable[[torch.Tensor, str, str | None], None]:
    categories, modules = tracker.recording.categories, tracker.recording.modules

    def mark(tensor: torch.Tensor, category: str, module: str | None) -> None:
        for inner in plain(tensor):
            block = tracker.block_of(inner)
            if block is not None:
                categories[block] = category
                if module is not None:
                    modules[block] = module

    return mark


def _stopped(tracker: Tracker, error: BaseException) -> Message:
    op, module = tracker.current or ("", "")
    # PyTorch goes on about builds of its own.
    first_line = (str(error).strip().splitlines() or [""])[0].partition(" This could be because")[0][:300]
    where: Message | str = IN_MODULE(module=module) if module else ""
    told = untraceable.known(str(op))
    if told is not None and isinstance(error, NotImplementedError | RuntimeError):
        return told(where=where, op=str(op))
    return STOPPED(where=where, op=str(op) or "its start", error=f"{type(error).__name__}: {first_line}")


def _limit(tracker: Tracker, seconds: float) -> Message:
    op, module = tracker.current or ("", "")
    return LIMIT(ops=len(tracker.op_names), seconds=round(seconds), op=str(op or "-"), module=module or "-")
