"""The thread that reads all counters ten times a second, and the one that brings them to the disk.

Legend: `device` what a GPU has in use, `process` what the command's processes hold of it, `others` what other
processes hold, `rss` what the command holds in the host. Process lists are read when the device's figure changed, and
once a second. A figure that was not told is not written, and a finding says so once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import msgspec

from capienza.errors import Message, template
from capienza.measure.nvml import LOST, MEMORY_CALL, PROCESS_CALL, Nvml, Unit
from capienza.measure.readings import Writer
from capienza.measure.tree import RSS_CALL, Tree, name_of

INTERVAL_SECONDS = 0.1
LOOK_SECONDS = 1.0
FLUSH_SECONDS = 1.0
MAX_OTHERS = 256
BYTES = "B"

UNSEEN = template(
    "measure.processes-unseen",
    "{scope}: the driver names process {pid}, which cannot be seen from here: whose memory it is stays unknown",
    "run it outside the container, or with the host's process numbers",
)
UNTOLD = template("measure.process-untold", "{scope}: the driver does not tell how much process {pid} holds")
READINGS_NOT_KEPT = template(
    "measure.readings-not-kept",
    "readings could not be written for a time: {problem}; lines lost: {lost}",
    "make room on that disk; the peaks of this summary hold only what is in the file",
)

BROKE = template("measure.reading-broke", "a reading broke off: {problem}", "this is our fault; please report it")


class Other(msgspec.Struct):
    """A process that is not the command's, and the most it held of a unit."""

    scope: str
    pid: int
    name: str
    peak_bytes: int | None


class _Unit(msgspec.Struct):
    unit: Unit
    device: int
    process: int
    others: int
    used_bytes: int | None = None
    is_lost: bool = False
    looked: float = -1.0


def _nothing() -> None:
    """Nothing more goes to the disk yet."""


class Sampler:
    """Reads until it is stopped. `baseline_bytes` is what each unit had in use before the command started."""

    def __init__(self, writer: Writer, nvml: Nvml | None, interval: float = INTERVAL_SECONDS) -> None:
        self.notes: dict[tuple[str, str], Message] = {}
        self.others: dict[tuple[str, int], Other] = {}
        self.own_scopes: set[str] = set()
        self.untold_scopes: set[str] = set()
        self.baseline_bytes: dict[str, int] = {}
        self.longest_gap_seconds = 0.0
        self._writer, self._nvml, self._interval = writer, nvml, interval
        self._tree: Tree | None = None
        self._also: Callable[[], None] = _nothing
        self._stopped = threading.Event()
        self._rss = writer.counter("rss", BYTES, "process:command", RSS_CALL)
        self._units = [
            _Unit(
                unit,
                writer.counter("device", BYTES, unit.scope, MEMORY_CALL),
                writer.counter("process", BYTES, unit.scope, PROCESS_CALL),
                writer.counter("others", BYTES, unit.scope, PROCESS_CALL),
            )
            for unit in (nvml.units if nvml else ())
        ]
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._sample, self._keep)]

    def before(self) -> None:
        """Read once what is in use before the command starts."""
        self._tick()
        self.baseline_bytes = {one.unit.scope: one.used_bytes for one in self._units if one.used_bytes is not None}

    @property
    def scopes(self) -> tuple[str, ...]:
        """The units, in the driver's order."""
        return tuple(one.unit.scope for one in self._units)

    def start(self, tree: Tree, also: Callable[[], None]) -> None:
        """Go on reading, now with the command's processes. `also` is called whenever readings go to the disk."""
        self._tree, self._also = tree, also
        for one in self._units:
            one.looked = -1.0
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Take the last readings. A driver that hangs is not waited for longer than that."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(seconds)

    def _sample(self) -> None:
        due = last = time.monotonic()
        while not self._stopped.is_set():
            try:
                self._tick()
            except Exception as error:
                self.note(BROKE(problem=f"{type(error).__name__}: {error}"[:200]), "sampler")
            now = time.monotonic()
            self.longest_gap_seconds, last = max(self.longest_gap_seconds, now - last), now
            due = max(due + self._interval, now)
            self._stopped.wait(due - now)

    def _keep(self) -> None:
        while not self._stopped.wait(FLUSH_SECONDS):
            self.flush()
            self._also()

    def flush(self) -> None:
        """Bring what was read to the disk; a disk that refuses is a finding, and is tried again."""
        try:
            self._writer.flush()
        except OSError as error:
            self.note(READINGS_NOT_KEPT(problem=os.strerror(error.errno or 0), lost=self._writer.lost), "disk")

    def note(self, message: Message, scope: str) -> None:
        """Keep a finding, once for each scope."""
        if len(self.notes) < MAX_OTHERS:
            self.notes.setdefault((message.code, scope), message)

    def _tick(self) -> None:
        now = self._writer.now()
        if self._tree is not None:
            if int(now / LOOK_SECONDS) != int((now - self._interval) / LOOK_SECONDS):
                self._tree.look()
            rss = self._tree.rss_bytes()
            if rss is not None:
                self._writer.read(self._rss, rss, now)
        for one in self._units:
            if not one.is_lost:
                self._read_unit(one)

    def _read_unit(self, one: _Unit) -> None:
        assert self._nvml is not None
        scope = one.unit.scope
        used = self._nvml.memory(one.unit)
        now = self._writer.now()
        if isinstance(used, Message):
            one.is_lost = used.code == LOST.code
            self.note(used, scope)
            return
        self._writer.read(one.device, used, now)
        if self._tree is not None and (used != one.used_bytes or now - one.looked >= LOOK_SECONDS):
            one.looked = now
            self._read_processes(one, now)
        one.used_bytes = used

    def _read_processes(self, one: _Unit, now: float) -> None:
        assert self._nvml is not None
        assert self._tree is not None
        scope = one.unit.scope
        found = self._nvml.processes(one.unit)
        if isinstance(found, Message):
            self.untold_scopes.add(scope)
            self.note(found, scope)
            return
        sums: dict[bool, int | None] = {True: 0, False: 0}
        for pid, held in found.items():
            is_own = self._tree.owns(pid)
            if is_own is None:
                self.note(UNSEEN(scope=scope, pid=pid), scope)
                sums = {True: None, False: None}
                self.untold_scopes.add(scope)
                self._seen_other(scope, pid, held)
                continue
            if is_own:
                self.own_scopes.add(scope)
            else:
                self._seen_other(scope, pid, held)
            if held is None:
                self.note(UNTOLD(scope=scope, pid=pid), scope)
            so_far = sums[is_own]
            sums[is_own] = None if held is None or so_far is None else so_far + held
        for is_own, counter in ((True, one.process), (False, one.others)):
            total = sums[is_own]
            if total is not None:
                self._writer.read(counter, total, now)

    def _seen_other(self, scope: str, pid: int, held: int | None) -> None:
        known = self.others.get((scope, pid))
        if known is not None:
            known.peak_bytes = held if known.peak_bytes is None else max(known.peak_bytes, held or 0)
        elif len(self.others) < MAX_OTHERS:
            self.others[scope, pid] = Other(scope, pid, name_of(pid), held)
