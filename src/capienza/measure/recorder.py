"""The phases of this process and their peaks, written to `readings.<rank>.jsonl` while the program goes on.

Legend: boundary the moment at which some phase begins or ends. At each boundary every counter gives its peak since the
last one and begins anew; that peak belongs to every phase that was open, so phases may lie in one another or overlap.
Nothing here waits for a disk, and the program does as little as it can: a thread turns what was said into lines and
writes them, and syncs once a second and at the end. The kernel's counter is the dearest one; it is read for the first
occurrences of a phase and then once a second.
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
from typing import NamedTuple

from capienza.errors import Message, template
from capienza.ledger.phase import Phase
from capienza.measure import resident, torch_cpu, torch_gpu
from capienza.measure.meter import Meter
from capienza.measure.readings import Writer

SYNC_SECONDS = 1.0
GATHER_SECONDS = 0.25
"""What comes within this time is written together."""
ADJACENT_SECONDS = 0.0002
"""A phase that begins so soon after another has ended takes over the counters as that end has left them."""
READ_FIRST, READ_EVERY_SECONDS = 3, 1.0
"""How often the resident size of a phase is read: its first occurrences, then one a second."""
MAX_WAITING = 100_000
"""What is held while the disk refuses; beyond it phases are counted as lost."""
UNIT = "B"

NOT_WRITTEN = template(
    "measure.not-written",
    "{file}: readings of this process are not written: {problem}; the program goes on",
    "make room, or name another folder in CAPIENZA_RUN",
)
LOST = template("measure.lost-lines", "{file}: {count} lines of readings found no room and are lost")


class OpenPhase:
    """A phase that has begun, and the peaks it has had so far."""

    __slots__ = ("is_read", "peaks", "phase", "start", "step")

    def __init__(self, phase: Phase, start: float, step: int | None, *, is_read: bool) -> None:
        self.phase = phase
        self.start = start
        self.step = step
        self.is_read = is_read
        self.peaks: dict[Meter, int] = {}


class _Said(NamedTuple):
    """What the program said of a phase: that it began, that it ended (`end`), or where it stood at last."""

    phase: Phase
    start: float
    end: float | None
    step: int | None
    at: float
    peaks: dict[Meter, int]


class Recorder:
    """Where this process writes its phases. A disk that refuses is said once; the program is never stopped by it."""

    def __init__(self, folder: Path, rank: int) -> None:
        """Create the file. Raises `OSError` when that cannot be done."""
        self.folder, self.rank = folder.absolute(), rank
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = os.getpid()
        self.seen: set[Phase] = set()
        self._writer = _writer(self.folder, rank)
        self._open: list[OpenPhase] = []
        self._numbers: dict[tuple[Meter, Phase], int] = {}
        self._lock = threading.RLock()  # a signal's handler may begin a phase in the middle of another's end
        # Unlike other queues, this may be put into by a signal's handler in the middle of another put.
        self._said: queue.SimpleQueue[_Said | None] = queue.SimpleQueue()
        self._dropped = 0
        self._reads: dict[Phase, tuple[int, float]] = {}
        self._stopped = self._refused = False
        self._last = 0.0
        self._thread = threading.Thread(target=self._keep_writing, name="capienza-readings", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def begin(self, phase: Phase, step: int | None = None, *, is_whole_past: bool = False) -> OpenPhase:
        """Open a phase. `is_whole_past`: what the counters kept since the process started belongs to it too."""
        with self._lock:
            now = self._writer.now()
            is_read = is_whole_past or self._is_due(phase, now)
            if not is_whole_past:
                self._boundary(is_read_next=is_read)
            opened = OpenPhase(phase, 0.0 if is_whole_past else now, step, is_read=is_read)
            self._open.append(opened)
            self.seen.add(phase)
            self._put(_Said(phase, opened.start, None, step, now, {}))
        return opened

    def end(self, opened: OpenPhase) -> None:
        """Close a phase and state its peaks; one that is closed already stays as it is."""
        with self._lock:
            if opened in self._open:
                self._boundary()
                self._open.remove(opened)
                now = self._writer.now()
                self._put(_Said(opened.phase, opened.start, now, opened.step, now, opened.peaks))

    def close(self) -> None:
        """Write what is left. A phase that is still open has its peaks so far, and no end."""
        with self._lock:
            if self._stopped or self.process != os.getpid():
                return
            self._boundary()
            for opened in self._open:
                self._put(_Said(opened.phase, opened.start, None, opened.step, self._writer.now(), opened.peaks))
            self._open.clear()
            self._stopped = True
        self._said.put(None)
        self._thread.join()
        try:
            self._writer.close()
        except OSError as error:
            self._refuse(error)
        if self._writer.lost or self._dropped:
            _say(LOST(file=self._writer.path.name, count=self._writer.lost + self._dropped))

    def _is_due(self, phase: Phase, now: float) -> bool:
        """Is the resident size read this time?"""
        count, last = self._reads.get(phase, (0, 0.0))
        if count >= READ_FIRST and now - last < READ_EVERY_SECONDS:
            return False
        self._reads[phase] = count + 1, now
        return True

    def _boundary(self, *, is_read_next: bool = False) -> None:
        peaks = torch_gpu.take() | torch_cpu.take()
        if any(opened.is_read for opened in self._open):
            peaks |= resident.take()
            self._last = time.monotonic()
        elif is_read_next and time.monotonic() - self._last > ADJACENT_SECONDS:
            resident.restart()
        for opened in self._open:
            for meter, value in peaks.items():
                if opened.is_read or meter.name not in resident.NAMES:
                    opened.peaks[meter] = max(value, opened.peaks.get(meter, 0))

    def _put(self, said: _Said) -> None:
        if self._said.qsize() < MAX_WAITING:
            self._said.put(said)
        else:
            self._dropped += 1

    def _keep_writing(self) -> None:
        synced, is_synced, is_over = time.monotonic(), True, False
        while not is_over:
            with contextlib.suppress(queue.Empty):
                first = self._said.get(timeout=None if is_synced else SYNC_SECONDS)
                if not self._stopped:
                    time.sleep(GATHER_SECONDS)
                is_over = self._turn_into_lines(first)
            is_due = time.monotonic() - synced >= SYNC_SECONDS
            try:
                self._writer.flush(sync=is_due)
            except OSError as error:
                self._refuse(error)
            is_synced = is_due
            synced = time.monotonic() if is_due else synced

    def _turn_into_lines(self, said: _Said | None) -> bool:
        """All that was said until now; True when that was the last."""
        while said is not None:
            self._state(said)
            try:
                said = self._said.get_nowait()
            except queue.Empty:
                return False
        return True

    def _state(self, said: _Said) -> None:
        if said.end is not None or not said.peaks:
            self._writer.phase(said.phase, said.start, said.end, "process", said.step)
        for meter, value in said.peaks.items():
            number = self._numbers.get((meter, said.phase))
            if number is None:
                number = self._writer.counter(
                    meter.name, UNIT, meter.scope, meter.source, peak_of=said.phase, device=meter.device
                )
                self._numbers[meter, said.phase] = number
            self._writer.read(number, value, said.at)

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
