"""The file of raw readings: lines that are only ever appended, and reach the disk before they count.

Legend: `t` seconds since the file's `started`, on a clock that never steps; `c` the number of a counter, which a line
of its own names once with unit and scope; `n` how many readings in a row had the value `v`, from `t0` to `t`. The first
reading of a value is written at the next flush, the ones like it when the value changes or a minute has passed: so a
process that is killed loses only what was not flushed. A part that has grown is closed and compressed beside the file.
"""

from __future__ import annotations

import contextlib
import datetime
import gzip
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, cast

import msgspec

from capienza.errors import InputError, Message, Place, template

SCHEMA = "capienza.readings/1"
CLOCK = "monotonic, seconds since started"
HEARTBEAT_SECONDS = 60.0
"""A value that stays is written again this often, so that a killed process leaves how long it had stayed."""
PART_BYTES = 8 * 1024 * 1024
MAX_PENDING_BYTES = 8 * 1024 * 1024
"""What is held while the disk refuses; beyond it readings are counted as lost."""
MAX_LINE_BYTES = 64 * 1024

NOT_READINGS = template(
    "measure.not-readings",
    "not a line of readings: {problem}",
    "the file was changed, or is of another tool; take it again from where it was made",
)
TORN = template("measure.torn-line", "{file}: the last line was cut off while it was written, and was not read")

Source = Literal["process", "log"]


class Header(msgspec.Struct, frozen=True):
    """The first line: when the clock of this file began, and the rank of the process that writes it."""

    schema: str
    started: datetime.datetime
    clock: str = CLOCK
    rank: int | None = None


class Counter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is counted, in which unit, for which scope ("gpu:0", "process:4711"), and by which call.

    `peak_of`: each reading is the peak of one whole phase of that name. `device`: digest of the GPU's UUID.
    """

    name: str
    unit: str
    scope: str
    source: str
    peak_of: str | None = None
    device: str | None = None


class Reading(msgspec.Struct, frozen=True):
    """`count` readings in a row of one counter with the same value, from `first` to `last`."""

    counter: Counter
    first: float
    last: float
    count: int
    value: int


class Span(msgspec.Struct, frozen=True):
    """A phase from `start` to `end`, in seconds; None while nobody has said that it ended."""

    phase: str
    start: float
    end: float | None
    source: Source
    step: int | None = None


class _Run:
    """The readings of one counter that are not in the file yet, all of one value."""

    __slots__ = ("count", "first", "is_new", "last", "value", "written")

    def __init__(self) -> None:
        self.value = -1
        self.first = self.last = self.written = 0.0
        self.count = 0
        self.is_new = True


class Writer:
    """Append readings and phases to one file. Every method may be called from any thread; only `flush` waits for disks.

    Nothing is on disk before `flush` returns. A disk that refuses makes `flush` raise `OSError`; what was not written
    is kept, within a bound, for the next one. `lost` counts the lines that found no room.
    """

    def __init__(self, path: Path, *, rank: int | None = None, started: datetime.datetime | None = None) -> None:
        """Create the file with its header. Raises `OSError` when it cannot be made, or is there already."""
        now = datetime.datetime.now(datetime.UTC)
        self.path = path
        self.started = started or now
        self.lost = 0
        self._zero = time.monotonic() - (now - self.started).total_seconds()
        self._lock = threading.RLock()  # a signal's handler may write in the middle of a write
        self._disk = threading.Lock()
        self._runs: list[_Run] = []
        self._names = [msgspec.json.encode(Header(SCHEMA, self.started, CLOCK, rank)) + b"\n"]
        self._pending = bytearray(self._names[0])
        self._unwritten = bytearray()
        self._parts = 0
        self._packer: threading.Thread | None = None
        self._file = _create(path)

    def now(self) -> float:
        """Seconds since `started`."""
        return time.monotonic() - self._zero

    def counter(
        self, name: str, unit: str, scope: str, source: str, *, peak_of: str | None = None, device: str | None = None
    ) -> int:
        """State a counter and return its number."""
        stated = msgspec.to_builtins(Counter(name, unit, scope, source, peak_of, device))
        with self._lock:
            number = len(self._runs)
            self._names.append(msgspec.json.encode({"counter": number, **stated}) + b"\n")
            self._runs.append(_Run())
            self._put(self._names[-1])
            return number

    def read(self, counter: int, value: int, t: float | None = None) -> None:
        """One reading of a counter, in its unit."""
        at = self.now() if t is None else t
        with self._lock:
            run = self._runs[counter]
            if run.value != value:
                self._end(counter)
                run.value, run.is_new = value, True
            if run.count == 0:
                run.first = at
            run.last = at
            run.count += 1

    def phase(self, phase: str, start: float, end: float | None, source: Source, step: int | None = None) -> None:
        """One phase. Written without an end, it may be written again with one."""
        line: dict[str, object] = {"phase": phase, "t": round(start, 3)}
        if end is not None:
            line["end"] = round(end, 3)
        line["from"] = source
        if step is not None:
            line["step"] = step
        with self._lock:
            self._put(msgspec.json.encode(line) + b"\n")

    def flush(self, *, sync: bool = True) -> None:
        """Put on disk what was read so far, at least the first of every value. Raises `OSError`."""
        with self._disk:
            now = self.now()
            with self._lock:
                for counter, run in enumerate(self._runs):
                    if run.count and (run.is_new or now - run.written >= HEARTBEAT_SECONDS):
                        self._end(counter)
                        run.written, run.is_new = now, False
            self._write(sync=sync)

    def close(self) -> None:
        """Write all that is left. Raises `OSError`; the file is closed all the same."""
        with self._disk:
            try:
                with self._lock:
                    for counter in range(len(self._runs)):
                        self._end(counter)
                self._write(sync=True)
            finally:
                os.close(self._file)
        if self._packer is not None:
            self._packer.join()

    def _end(self, counter: int) -> None:
        run = self._runs[counter]
        if run.count == 1:
            self._put(b'{"c":%d,"t":%.3f,"v":%d}\n' % (counter, run.last, run.value))
        elif run.count:
            values = (counter, run.first, run.last, run.count, run.value)
            self._put(b'{"c":%d,"t0":%.3f,"t":%.3f,"n":%d,"v":%d}\n' % values)
        run.count = 0

    def _put(self, line: bytes) -> None:
        if len(self._pending) + len(line) > MAX_PENDING_BYTES:
            self.lost += 1
        else:
            self._pending += line

    def _write(self, *, sync: bool) -> None:
        """What the disk took is struck off the unwritten bytes: after a refusal in mid-line it goes on from there."""
        with self._lock:
            room = MAX_PENDING_BYTES - len(self._unwritten)
            if len(self._pending) <= room:
                self._unwritten += self._pending
                self._pending.clear()
        while self._unwritten:
            written = os.write(self._file, self._unwritten)
            del self._unwritten[:written]
        if sync:
            os.fsync(self._file)
        if os.fstat(self._file).st_size >= PART_BYTES:
            self._next_part()

    def _next_part(self) -> None:
        """The full part steps aside under a number; the file begins anew with header and counters."""
        if self._packer is not None:
            self._packer.join()
        part = self.path.with_name(f"{self.path.stem}-{self._parts + 1:05d}{self.path.suffix}")
        self.path.rename(part)
        try:
            file = _create(self.path)
        except OSError:
            part.rename(self.path)
            raise
        os.close(self._file)
        self._file = file
        self._parts += 1
        with self._lock:
            self._unwritten += b"".join(self._names)
        self._packer = threading.Thread(target=_pack, args=(part,), daemon=True)
        self._packer.start()


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)


def _pack(part: Path) -> None:
    """Compress a closed part; the plain one goes only when the other is whole on disk. No room: it stays plain."""
    packed = part.with_name(part.name + ".gz")
    temporary = packed.with_name(f".{packed.name}")
    try:
        with part.open("rb") as plain, temporary.open("wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0) as target:
                while piece := plain.read(1 << 20):
                    target.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(packed)
        part.unlink()
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


class Readings:
    """One file of readings with its closed parts, read in order and never held as a whole.

    `findings` says what was not read; it is complete once the lines were gone through.
    """

    def __init__(self, path: Path) -> None:
        """Read the header. Raises `InputError` when the file is no file of readings, `OSError` when not readable."""
        self.path = path
        self.findings: list[Message] = []
        first = next(self._lines(), None)
        try:
            self.header = msgspec.convert(first[1] if first else None, Header)
        except msgspec.ValidationError as error:
            raise InputError(NOT_READINGS(problem=str(error)), Place(str(path), 1)) from error
        if self.header.schema.split(".")[:2] != SCHEMA.split("."):
            raise InputError(NOT_READINGS(problem=self.header.schema[:64]), Place(str(path), 1))

    def readings(self) -> Iterator[Reading]:
        """Every reading, in the order of the file. Raises `InputError` at the first line that is none."""
        counters: dict[int, Counter] = {}
        for place, line in self._lines():
            try:
                if "counter" in line:
                    counters[line["counter"]] = msgspec.convert(line, Counter)  # type: ignore[index]
                elif "c" in line:
                    yield _reading(line, counters)
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(NOT_READINGS(problem=str(error)[:200]), place) from error

    def phases(self) -> tuple[Span, ...]:
        """Every phase, by its start; one that was written with and without its end counts once, with it."""
        spans: dict[tuple[str, float, str, int | None], Span] = {}
        for place, line in self._lines():
            if "phase" in line:
                try:
                    span = _span(line)
                except (KeyError, TypeError, ValueError) as error:
                    raise InputError(NOT_READINGS(problem=str(error)[:200]), place) from error
                spans[span.phase, span.start, span.source, span.step] = span
        return tuple(sorted(spans.values(), key=lambda span: span.start))

    def _lines(self) -> Iterator[tuple[Place, dict[str, object]]]:
        for part in _parts(self.path):
            place = str(part)
            with _open(part) as file:
                for number, data in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                    if not data.endswith(b"\n"):
                        torn = TORN(file=part.name)
                        if torn not in self.findings:
                            self.findings.append(torn)
                        break
                    try:
                        yield Place(place, number), msgspec.json.decode(data, type=dict[str, object])
                    except msgspec.DecodeError as error:
                        raise InputError(NOT_READINGS(problem=str(error)), Place(place, number)) from error


def _parts(path: Path) -> list[Path]:
    """The closed parts in their order, then the file itself. Of a part that is there twice, the packed one."""
    pattern = re.compile(rf"{re.escape(path.stem)}-([0-9]{{5,9}}){re.escape(path.suffix)}(\.gz)?")
    found: dict[int, Path] = {}
    for other in sorted(path.parent.iterdir()):
        match = pattern.fullmatch(other.name)
        if match:
            found[int(match[1])] = other
    parts = [found[number] for number in sorted(found)]
    return [*parts, path] if path.exists() or not parts else parts


def _open(part: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(part, "rb") if part.suffix == ".gz" else part.open("rb"))


def _reading(line: dict[str, object], counters: dict[int, Counter]) -> Reading:
    raw = msgspec.convert(line, _Line)
    if raw.n < 1:
        raise ValueError(raw.n)
    return Reading(counters[raw.c], raw.t if raw.t0 is None else raw.t0, raw.t, raw.n, raw.v)


def _span(line: dict[str, object]) -> Span:
    raw = msgspec.convert(line, _PhaseLine)
    return Span(raw.phase, raw.t, raw.end, raw.source, raw.step)


class _Line(msgspec.Struct, frozen=True):
    c: int
    t: float
    v: int
    n: int = 1
    t0: float | None = None


class _PhaseLine(msgspec.Struct, frozen=True):
    phase: str
    t: float
    source: Source = msgspec.field(name="from")
    end: float | None = None
    step: int | None = None
