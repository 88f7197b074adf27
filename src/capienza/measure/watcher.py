"""The thread that reads along: lines of the output become phases, dimensions, and the facts of a diagnosis.

It never holds up the output. Of what comes faster than it can be read the newest is kept, within a bound, and the rest
is counted: how a run ends is told last. The log has it all the same. Legend: a phase lasts from the line that tells it
until the next one. A server that is ready answers requests whose prefill and decode run side by side, and a trainer's
loop prints nothing within a step: when they have shown that they work, the time since counts for each of their phases.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from capienza.diagnose.diagnosis import Diagnosis
from capienza.diagnose.gather import Gatherer
from capienza.diagnose.run import diagnosis_of
from capienza.errors import Message, template
from capienza.evidence.vocabulary import PHASES
from capienza.logs.lines import Line, LineReader
from capienza.logs.reader import Fact, FactReader
from capienza.measure.observed import Observed
from capienza.measure.readings import Writer
from capienza.measure.usage import Usage

MAX_WAITING_BYTES = 1024 * 1024
PIECE_BYTES = 64 * 1024
CATCH_UP_SECONDS = 5.0
LAST_BYTES, LAST_SECONDS = 2 * PIECE_BYTES, 30.0
"""What is read of the end on a machine that is too busy for more, and how long it may take there."""
READY = ""
SERVING = ("prefill", "decode")
TRAINING = ("forward", "backward", "optimizer_step_first", "optimizer_step_steady")
STEP = "optimizer_step"

NOT_READ = template(
    "measure.output-not-read",
    "{skipped_bytes} of the output came faster than lines can be read; no phase was taken from them",
    "they are in the log: capienza diagnose reads it",
)
BROKE = template(
    "measure.output-broke",
    "reading the output for its phases broke off: {problem}",
    "this is our fault; please report it. capienza diagnose reads the log",
)


class Watcher:
    """Takes pieces of both streams, and reads them in a thread of its own."""

    def __init__(self, writer: Writer, log: str, *, is_training: bool = False) -> None:
        self.usage = Usage()
        self.observed = Observed()
        self.skipped_bytes = 0
        self._writer, self._log = writer, log
        self._gatherer = Gatherer()
        self._streams = {stream: (LineReader(), FactReader()) for stream in (1, 2)}
        self._pieces: dict[int, deque[tuple[float, bytes]]] = {stream: deque() for stream in self._streams}
        self._waiting = dict.fromkeys(self._streams, 0)
        self._torn: set[int] = set()
        self._problem: Message | None = None
        self._more = threading.Condition()
        self._is_ended = False
        self._phase: str | None = None
        self._since = 0.0
        self._has_worked = False
        self._steps = 0
        self._together = TRAINING if is_training else SERVING
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to read what was taken."""
        self._thread.start()

    def take(self, stream: int, piece: bytes) -> None:
        """Take a piece; it returns at once."""
        now = self._writer.now()
        with self._more:
            for start in range(0, len(piece), PIECE_BYTES):
                part = piece[start : start + PIECE_BYTES]
                self._pieces[stream].append((now, part))
                self._waiting[stream] += len(part)
            self._leave_out(stream, MAX_WAITING_BYTES)
            self._more.notify()

    def _leave_out(self, stream: int, kept_bytes: int) -> None:
        """Drop the oldest pieces of a stream until no more than that waits. A flood on one leaves the other alone."""
        while self._waiting[stream] > kept_bytes:
            _, lost = self._pieces[stream].popleft()
            self._waiting[stream] -= len(lost)
            self.skipped_bytes += len(lost)
            self._torn.add(stream)

    def finish(self) -> Diagnosis:
        """Read what is left, within a bound of time, and say what the output tells of a failure."""
        with self._more:
            self._is_ended = True
            self._more.notify()
        self._thread.join(CATCH_UP_SECONDS)
        with self._more:
            for stream in self._streams:
                self._leave_out(stream, LAST_BYTES)
        self._thread.join(LAST_SECONDS)
        for lines, facts in self._streams.values() if self._problem is None else ():
            self._facts(facts.read(self._seen(lines.close())))
            self._facts(facts.close())
        self._enter(None, self._writer.now())
        gathered = self._gatherer.finished()
        gathered.lines = sum(lines.count for lines, _ in self._streams.values())
        return diagnosis_of(gathered, self._log)

    @property
    def notes(self) -> list[Message]:
        """What must be known about the reading."""
        skipped = [NOT_READ(skipped_bytes=self.skipped_bytes)] if self.skipped_bytes else []
        broke = [self._problem] if self._problem else []
        return [*skipped, *broke, *self.usage.notes]

    def _run(self) -> None:
        while True:
            with self._more:
                while not any(self._pieces.values()) and not self._is_ended:
                    self._more.wait()
                waiting = {stream: pieces[0][0] for stream, pieces in self._pieces.items() if pieces}
                if not waiting:
                    return
                stream = min(waiting, key=waiting.__getitem__)
                now, piece = self._pieces[stream].popleft()
                self._waiting[stream] -= len(piece)
                is_torn = stream in self._torn
                self._torn.discard(stream)
            try:
                self._read(now, stream, b"\n" + piece if is_torn else piece)
            except Exception as error:
                self._problem = BROKE(problem=f"{type(error).__name__}: {error}"[:200])
                return

    def _read(self, now: float, stream: int, piece: bytes) -> None:
        """After a gap the line before it has no end: a line feed keeps the two halves apart."""
        lines, facts = self._streams[stream]
        self._facts(facts.read(self._seen(lines.feed(piece))), now)

    def _seen(self, lines: Iterator[Line]) -> Iterator[Line]:
        for line in lines:
            self.usage.line(line.text)
            self.observed.line(line.text)
            yield line

    def _facts(self, facts: Iterator[Fact], now: float | None = None) -> None:
        for fact in facts:
            self._gatherer.add((fact,))
            row = fact.row
            if row is not None and row.rank == "mark" and row.phase != "*":
                self._mark(row.phase, is_progress=row.is_progress, now=now or self._writer.now())

    def _mark(self, phase: str, *, is_progress: bool, now: float) -> None:
        if phase == READY:
            self._has_worked = self._has_worked or is_progress
        if phase != self._phase:
            self._enter(phase, now)

    def _enter(self, phase: str | None, now: float) -> None:
        """End the phase so far, and begin the next."""
        before, since = self._phase, self._since
        if before == READY and self._has_worked:
            for name in self._together:
                self._writer.phase(name, since, now, "log")
        elif before in PHASES:
            self._writer.phase(before, since, now, "log")
        elif before == STEP:
            self._steps += 1
            kind = "first" if self._steps == 1 else "steady"
            self._writer.phase(f"{STEP}_{kind}", since, now, "log", step=self._steps)
        if phase in PHASES:
            self._writer.phase(phase or "", now, None, "log")
        self._phase, self._since, self._has_worked = phase, now, False
