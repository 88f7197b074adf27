"""Facts of a log folded into what a diagnosis needs, in bounded memory.

Ten thousand retries are one failure with a count. Each process (rank, worker) has its own stack; what stands after a
failure belongs to it where its stack was not whole before, as in excerpts that people reorder.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from capienza.logs.frames import Frame
from capienza.logs.reader import INNER_FIRST, Fact
from capienza.logs.said import Said

ORDER = (
    "environment", "startup", "data", "load", "profile_warmup", "kv_cache_allocation", "graph_capture", "", "prefill",
    "decode", "forward", "backward", "optimizer_step", "eval", "checkpoint",
)  # fmt: skip
"""Phases as a run comes to them."""
MOST_FRAMES = 256
MOST_FAILURES = 128
MOST_SOURCES = 512
"""Bounds: calls of one stack, different failures, processes."""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """A line after which the engine is in a phase ("" after one, before the next)."""

    phase: str
    line: int
    text: str
    code: str


class Failure(msgspec.Struct, gc=False):
    """A failing line, its first occurrence; `before` and `after` are calls of its stack around it."""

    row: Said
    line: int
    source: str
    text: str
    level: str
    figures: dict[str, int]
    before: list[Frame]
    after: list[Frame]
    is_whole: bool
    mark: Mark | None
    last_line: int
    count: int = 1
    is_superseded: bool = False

    @property
    def is_fatal(self) -> bool:
        """Does the run end here, by the line itself?"""
        if self.row.is_fatal is None:
            return self.level != "warning"
        return self.row.is_fatal and not (self.level == "warning" and self.row.rank in ("cause", "error"))


class Gathered(msgspec.Struct):
    """Everything kept of a log."""

    failures: list[Failure] = []
    marks: list[Mark] = []
    figures: dict[str, int] = {}
    tail: list[Frame] = []
    tail_is_open: bool = False
    progress_line: int = 0
    lines: int = 0
    unlisted: int = 0


class _Stack(msgspec.Struct):
    frames: list[Frame] = []
    is_whole: bool = False
    is_open: bool = False
    is_inner_first: bool = False


class Gatherer:
    """Folds facts, one after another."""

    def __init__(self) -> None:
        self.gathered = Gathered()
        self._stacks: dict[str, _Stack] = {}
        self._known: dict[tuple[str, str, bool], Failure] = {}
        self._last: Failure | None = None
        self._last_mark: dict[str, Mark] = {}

    def add(self, facts: Iterable[Fact]) -> None:
        """Fold these facts."""
        for fact in facts:
            match fact.kind:
                case "traceback":
                    self._stack_of(fact.source, fresh=True).is_inner_first = fact.text == INNER_FIRST
                case "frame":
                    self._frame(fact)
                case "chained":
                    self._chained(fact)
                case "said":
                    self._said(fact)

    def finished(self) -> Gathered:
        """What was gathered; a stack without its last line is kept as the tail."""
        for stack in self._stacks.values():
            if stack.is_open and any(frame.path for frame in stack.frames):
                self.gathered.tail, self.gathered.tail_is_open = stack.frames, True
        return self.gathered

    def _stack_of(self, source: str, *, fresh: bool = False) -> _Stack:
        stack = self._stacks.get(source)
        if stack is None or fresh:
            if stack is None and len(self._stacks) >= MOST_SOURCES:
                self._stacks.pop(next(iter(self._stacks)))
            stack = self._stacks[source] = _Stack(frames=[], is_whole=fresh)
        return stack

    def _frame(self, fact: Fact) -> None:
        assert fact.frame is not None
        stack = self._stack_of(fact.source)
        if not stack.is_open and stack.frames and not stack.is_whole:
            stack = self._stack_of(fact.source, fresh=True)
            stack.is_whole = False
        stack.is_open = True
        stack.frames.insert(0 if stack.is_inner_first else len(stack.frames), fact.frame)
        del stack.frames[:-MOST_FRAMES]
        last = self._last
        if last is not None and not last.is_whole and len(last.after) < MOST_FRAMES:
            last.after.append(fact.frame)

    def _chained(self, fact: Fact) -> None:
        last = self._last
        if (
            last is not None
            and fact.text.startswith("During")
            and last.row.rank == "error"
            and last.source == fact.source
        ):
            last.is_superseded = True

    def _said(self, fact: Fact) -> None:
        row = fact.row
        assert row is not None
        if row.rank == "mark":
            self._marked(row, fact)
            return
        is_fatal = row.is_fatal is not False and fact.level != "warning"
        key = (row.code, fact.source, is_fatal)
        known = self._known.get(key)
        if known is None and len(self._known) >= MOST_FAILURES:
            self.gathered.unlisted += 1
            return
        if known is not None:
            if fact.line == known.line or fact.line == known.last_line:
                known.figures = {**fact.figures, **known.figures} if fact.line != known.line else fact.figures
            else:
                known.count, known.last_line = known.count + 1, fact.line
            return
        stack = self._stacks.get(fact.source)
        frames = list(stack.frames) if stack is not None and stack.frames else []
        failure = Failure(
            row=row, line=fact.line, source=fact.source, text=fact.text, level=fact.level, figures=fact.figures,
            before=frames, after=[], is_whole=bool(stack is not None and stack.is_whole and frames),
            mark=self._mark_of(fact.source), last_line=fact.line,
        )  # fmt: skip
        if stack is not None and row.rank in ("cause", "error"):
            stack.is_open = False
        self._known[key] = failure
        self.gathered.failures.append(failure)
        if row.rank in ("cause", "error"):
            self._last = failure

    def _mark_of(self, source: str) -> Mark | None:
        """Where this process is; where nothing tells, where the process furthest on is: their lines mix."""
        own = self._last_mark.get(source)
        marks = self._last_mark.values()
        return own or max(marks, key=lambda mark: (ORDER.index(mark.phase), mark.line), default=None)

    def _marked(self, row: Said, fact: Fact) -> None:
        self.gathered.figures.update(fact.figures)
        if row.phase == "*":
            return
        if row.is_progress:
            self.gathered.progress_line = fact.line
        mark = Mark(row.phase, fact.line, fact.text, row.code)
        if fact.source in self._last_mark or len(self._last_mark) < MOST_SOURCES:
            self._last_mark[fact.source] = mark
        marks = self.gathered.marks
        if not marks or marks[-1].code != row.code:
            marks.append(mark)
            if len(marks) > MOST_FAILURES:
                del marks[0]
