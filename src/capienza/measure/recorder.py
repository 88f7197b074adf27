"""The phases of this process and their peaks, written to `readings.<rank>.jsonl` while the program goes on.

Legend: boundary the moment at which some phase begins or ends. At each boundary every counter gives its peak since the
last one and begins anew; that peak belongs to every phase that was open, so phases may lie in one another or overlap.
Nothing here waits for a disk: a thread writes as soon as there is something, and syncs once a second and at the end.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import sys
import threading
import time
from pathlib import Path

from capienza.errors import Message, template
from capienza.ledger.phase import Phase
from capienza.measure import resident, torch_cpu, torch_gpu
from capienza.measure.meter import Meter
from capienza.measure.readings import Writer

SYNC_SECONDS = 1.0
GATHER_SECONDS = 0.1
"""What comes within this time is written together."""
ADJACENT_SECONDS = 0.0002
"""A phase that begins so soon after another has ended takes over the counters as that end has left them."""
UNIT = "B"

NOT_WRITTEN = template(
    "measure.not-written",
    "{file}: readings of this process are not written: {problem}; the program goes on",
    "make room, or name another folder in CAPIENZA_RUN",
)
LOST = template("measure.lost-lines", "{file}: {count} lines of readings found no room and are lost")


class OpenPhase:
    """A phase that has begun, and the peaks it has had so far."""

    __slots__ = ("peaks", "phase", "start", "step")

    def __init__(self, phase: Phase, start: float, step: int | None) -> None:
        self.phase = phase
        self.start = start
        self.step = step
        self.peaks: dict[Meter, int] = {}


class Recorder:
    """Where this process writes its phases. A disk that refuses is said once; the program is never stopped by it."""

    def __init__(self, folder: Path, rank: int) -> None:
        """Create the file. Raises `OSError` when that cannot be done."""
        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        self.process = os.getpid()
        self.seen: set[Phase] = set()
        self._writer = _writer(folder, rank)
        self._open: list[OpenPhase] = []
        self._numbers: dict[tuple[Meter, Phase], int] = {}
        self._lock = threading.RLock()  # a signal's handler may begin a phase in the middle of another's end
        # Unlike an event, this may be put into by a signal's handler in the middle of another put.
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_told = False
        self._stopped = self._refused = False
        self._last = 0.0
        self._thread = threading.Thread(target=self._keep_writing, name="capienza-readings", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def begin(self, phase: Phase, step: int | None = None, *, is_whole_past: bool = False) -> OpenPhase:
        """Open a phase. `is_whole_past`: what the counters kept since the process started belongs to it too."""
        with self._lock:
            if not is_whole_past:
                self._boundary()
            opened = OpenPhase(phase, 0.0 if is_whole_past else self._writer.now(), step)
            self._open.append(opened)
            self.seen.add(phase)
            self._writer.phase(phase, opened.start, None, "process", step)
        self._tell()
        return opened

    def end(self, opened: OpenPhase) -> None:
        """Close a phase and state its peaks; one that is closed already stays as it is."""
        with self._lock:
            if opened in self._open:
                self._boundary()
                self._open.remove(opened)
                self._state(opened, self._writer.now(), has_ended=True)
        self._tell()

    def close(self) -> None:
        """Write what is left. A phase that is still open has its peaks so far, and no end."""
        with self._lock:
            if self._stopped or self.process != os.getpid():
                return
            self._boundary()
            for opened in self._open:
                self._state(opened, self._writer.now(), has_ended=False)
            self._open.clear()
            self._stopped = True
        self._tell()
        self._thread.join()
        try:
            self._writer.close()
        except OSError as error:
            self._refuse(error)
        if self._writer.lost:
            _say(LOST(file=self._writer.path.name, count=self._writer.lost))

    def _boundary(self) -> None:
        peaks = torch_gpu.take() | torch_cpu.take()
        if self._open:
            peaks |= resident.take()
        elif time.monotonic() - self._last > ADJACENT_SECONDS:
            resident.restart()
        self._last = time.monotonic()
        for opened in self._open:
            for meter, value in peaks.items():
                opened.peaks[meter] = max(value, opened.peaks.get(meter, 0))

    def _state(self, opened: OpenPhase, now: float, *, has_ended: bool) -> None:
        if has_ended:
            self._writer.phase(opened.phase, opened.start, now, "process", opened.step)
        for meter, value in opened.peaks.items():
            number = self._numbers.get((meter, opened.phase))
            if number is None:
                number = self._writer.counter(
                    meter.name, UNIT, meter.scope, meter.source, peak_of=opened.phase, device=meter.device
                )
                self._numbers[meter, opened.phase] = number
            self._writer.read(number, value, now)

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._news.put(None)

    def _keep_writing(self) -> None:
        synced, is_synced = time.monotonic(), True
        while not self._stopped:
            with contextlib.suppress(queue.Empty):
                self._news.get(timeout=None if is_synced else SYNC_SECONDS)
                if not self._stopped:
                    time.sleep(GATHER_SECONDS)
            self._is_told = False
            is_due = time.monotonic() - synced >= SYNC_SECONDS
            try:
                self._writer.flush(sync=is_due)
            except OSError as error:
                self._refuse(error)
            is_synced = is_due
            synced = time.monotonic() if is_due else synced

    def _refuse(self, error: OSError) -> None:
        if not self._refused:
            self._refused = True
            refuse(self._writer.path, error)


def refuse(path: Path, error: OSError) -> None:
    """Say that nothing is written, and why."""
    _say(NOT_WRITTEN(file=str(path), problem=error.strerror or str(error)))


def _say(message: Message) -> None:
    """On the program's standard error, and not as a warning: a program may turn those into failures."""
    sys.stderr.write(f"capienza: {message}\n")


def _writer(folder: Path, rank: int) -> Writer:
    """A second process of the same rank, or a run that is repeated into the same folder, writes a file of its own."""
    try:
        return Writer(folder / f"readings.{rank}.jsonl", rank=rank)
    except FileExistsError:
        return Writer(folder / f"readings.{rank}.{os.getpid()}.{time.time_ns()}.jsonl", rank=rank)
