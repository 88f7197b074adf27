"""`phase`: say from inside a program in which phase it is, so that each phase gets its own peaks.

Nothing happens unless the program runs under `capienza measure` (the environment variable CAPIENZA_RUN names the
folder of the run) or has named a folder with `write_to`. Counters are those that are there: see `resident`,
`torch_gpu` and, inside `cpu_allocator()`, `torch_cpu`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from capienza.errors import UsageError, template
from capienza.ledger.phase import OTHER_NAMES, Phase
from capienza.measure import torch_cpu
from capienza.measure.recorder import Recorder, refuse

RUN, RANK = "CAPIENZA_RUN", "RANK"
OPTIMIZER_STEP = "optimizer_step"
NO_PHASE = template(
    "measure.no-phase",
    "there is no phase {found}; accepted: {accepted}",
    "name one of those",
)

_lock = threading.RLock()
_folder: Path | None = None
_recorder: Recorder | None = None
_refused: Path | None = None


@contextlib.contextmanager
def phase(name: str, *, step: int | None = None) -> Iterator[None]:
    """Count what happens inside as that phase. It also works as a decorator of a function.

    `name` is a phase of the ledger; `optimizer_step` is the first one and from then on a steady one, `validation` is
    eval. `step` is kept beside it. Phases may lie in one another. Raises `UsageError` for a name that is none.
    """
    known = _known(name)
    recorder = current()
    if recorder is None:
        yield
        return
    opened = recorder.begin(known or next_update(recorder), step)
    try:
        yield
    finally:
        recorder.end(opened)


def write_to(folder: str | Path) -> None:
    """Write this process's readings into a folder, whatever CAPIENZA_RUN says; what was begun elsewhere is closed."""
    global _folder
    stop()
    _folder = Path(folder)


def stop() -> None:
    """Write and close what was begun; a later phase begins anew."""
    global _recorder, _folder, _refused
    with _lock:
        recorder, _recorder, _folder, _refused = _recorder, None, None, None
    if recorder is not None:
        recorder.close()


@contextlib.contextmanager
def cpu_allocator() -> Iterator[None]:
    """Also watch PyTorch's allocator in main memory, for runs without a GPU; see `torch_cpu` for what that costs.

    It begins before the model is loaded, and phases lie in it. Nothing happens where nothing is recorded.
    Raises `MissingPartError` without PyTorch, `UsageError` where another profiler runs.
    """
    with torch_cpu.watching() if current() is not None else contextlib.nullcontext():
        yield


def current() -> Recorder | None:
    """The recorder of this process; None where nothing is to be recorded, or the folder cannot be written to."""
    global _recorder, _refused
    if _recorder is not None and _recorder.process == os.getpid():
        return _recorder
    named = os.environ.get(RUN)
    folder = _folder or (Path(named) if named else None)
    if folder is None or folder == _refused:
        return None
    with _lock:
        if _recorder is None or _recorder.process != os.getpid():
            try:
                _recorder = Recorder(folder, rank_of(os.environ.get(RANK)))
            except OSError as error:
                _recorder, _refused = None, folder
                refuse(folder, error)
        return _recorder


def _forget() -> None:
    """A forked child records for itself: its parent's recorder, and a lock that somebody held, are not its own."""
    global _recorder, _lock
    _recorder, _lock = None, threading.RLock()


os.register_at_fork(after_in_child=_forget)


def rank_of(text: str | None) -> int:
    """The rank that torchrun and its like name; a program that was started alone is its own first."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def next_update(recorder: Recorder) -> Phase:
    """The first optimizer step makes its states; the ones after it find them there."""
    is_first = Phase.OPTIMIZER_STEP_FIRST not in recorder.seen
    return Phase.OPTIMIZER_STEP_FIRST if is_first else Phase.OPTIMIZER_STEP_STEADY


def _known(name: str) -> Phase | None:
    """The phase of a name; None for an optimizer step, which may be the first."""
    if name == OPTIMIZER_STEP:
        return None
    try:
        return OTHER_NAMES.get(name) or Phase(name)
    except ValueError as error:
        accepted = (*(known.value for known in Phase), OPTIMIZER_STEP, *OTHER_NAMES)
        raise UsageError(NO_PHASE(found=repr(str(name)[:40]), accepted=accepted)) from error
