"""A stream of bytes as facts: calls of a stack, starts and links of tracebacks, and lines that a table knows.

Facts come as soon as their line is whole, so that a running command can be followed. A message that goes on in the next
lines comes again, with the same line number and more figures. Nothing is kept but the last line and one open message:
memory does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from capienza.logs import (
    cuda,
    llamacpp,
    python,
    pytorch,
    servers,
    sglang,
    system,
    tensorflow,
    training,
    vllm,
)
from capienza.logs.frames import Frame, code_of, frame_of, function_of
from capienza.logs.lines import Line, LineReader
from capienza.logs.prefix import taken_apart
from capienza.logs.said import AT_ONCE, Said, by_anchor, figures_of

Kind = Literal["traceback", "chained", "frame", "said"]
KEPT_CHARACTERS = 600
"""Longest text of a line that a fact carries."""
TABLES = (pytorch, cuda, system, vllm, sglang, llamacpp, servers, training, tensorflow)
ROWS: tuple[Said, ...] = tuple(row for table in TABLES for row in table.ROWS)
_INDEX = by_anchor(ROWS)
WRAPPED = tuple(row for row in ROWS if row.is_wrapped)
_ORDER = {row.code: place for place, row in enumerate(ROWS)}
_HEAD = "Traceback (most recent call last)"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


class Fact(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One thing that a line says; `row` is that of a known line, `frame` that of a call."""

    kind: Kind
    line: int
    source: str
    text: str
    level: str = ""
    row: Said | None = None
    frame: Frame | None = None
    figures: dict[str, int] = {}


class _Open(msgspec.Struct):
    """A message that may go on in the next lines."""

    row: Said
    line: int
    source: str
    level: str
    first: str
    text: str
    figures: dict[str, int] | None
    lines_left: int = 5


class FactReader:
    """Turns lines into facts, one line at a time."""

    def __init__(self) -> None:
        self._call: tuple[str, str, int, str] | None = None
        self._open: list[_Open] = []

    def read(self, lines: Iterable[Line]) -> Iterator[Fact]:
        """The facts of these lines."""
        for line in lines:
            yield from self._line(line)

    def close(self) -> Iterator[Fact]:
        """The call whose line of code never came."""
        yield from self._without_code()

    def _line(self, line: Line) -> Iterator[Fact]:
        source, level, words = taken_apart(line.text)
        if _HEAD in words:
            yield from self._without_code()
            yield Fact(kind="traceback", line=line.number, source=source, text=_HEAD)
        found = frame_of(words)
        if found is not None:
            yield from self._without_code()
            self._call = (*found, line.number, source)
            self._open.clear()
            return
        if self._call is not None:
            name = function_of(words) if not self._call[1] else ""
            if name:
                self._call = (self._call[0], name, *self._call[2:])
                return
        rows = list(known(words))
        code = None if any(row.rank in ("cause", "error") for row, _ in rows) else code_of(words)
        if code is not None:
            yield from self._with_code(code, line, source)
        elif self._call is not None:
            yield from self._without_code()
        if self._open:
            yield from self._went_on(words, source, is_other=bool(rows))
        for row, figures in rows:
            yield _said(row, line.number, source, level, words, figures)
        self._open_messages(rows, words, line, source, level)
        if not rows and words.startswith(_CHAINED):
            yield Fact(kind="chained", line=line.number, source=source, text=words[:80])

    def _with_code(self, code: str, line: Line, source: str) -> Iterator[Fact]:
        if self._call is None:
            if code:
                frame = Frame("", "", code[:KEPT_CHARACTERS], line.number, source)
                yield Fact(kind="frame", line=line.number, source=source, text=frame.code, frame=frame)
            return
        path, function, number, of = self._call
        self._call = None
        frame = Frame(path, function, code[:KEPT_CHARACTERS], number, of)
        yield Fact(kind="frame", line=number, source=of, text=code[:KEPT_CHARACTERS] or function, frame=frame)

    def _without_code(self) -> Iterator[Fact]:
        if self._call is not None:
            path, function, number, source = self._call
            self._call = None
            frame = Frame(path, function, "", number, source)
            yield Fact(kind="frame", line=number, source=source, text=function, frame=frame)

    def _went_on(self, words: str, source: str, *, is_other: bool) -> Iterator[Fact]:
        for message in list(self._open):
            if message.source != source:
                continue
            message.lines_left -= 1
            if is_other or message.lines_left < 0 or len(message.text) > AT_ONCE + len(message.first):
                self._open.remove(message)
                continue
            message.text = f"{message.text} {words.strip()}"
            figures = matched(message.row, message.text)
            if figures is not None and (message.figures is None or len(figures) > len(message.figures)):
                message.figures = figures
                yield _said(message.row, message.line, source, message.level, message.first, figures)

    def _open_messages(
        self, rows: list[tuple[Said, dict[str, int]]], words: str, line: Line, source: str, level: str
    ) -> None:
        lower = words.lower()
        found = {row.code: figures for row, figures in rows}
        for row in WRAPPED:
            if row.code in found or (row.pattern is not None and any(anchor in lower for anchor in row.anchors)):
                self._open.append(_Open(row, line.number, source, level, words, words, found.get(row.code)))


def _said(row: Said, line: int, source: str, level: str, words: str, figures: dict[str, int]) -> Fact:
    text = words.strip()[:KEPT_CHARACTERS]
    return Fact(kind="said", line=line, source=source, level=level, text=text, row=row, figures=figures)


def known(words: str) -> Iterator[tuple[Said, dict[str, int]]]:
    """The rows that a line matches, in the order of the tables; a traceback's last line always has one."""
    lower = words.lower()
    rows: dict[str, Said] = {}
    for anchor, named in _INDEX:
        if anchor in lower:
            for row in named:
                rows[row.code] = row
    is_error = False
    for row in sorted(rows.values(), key=_place) if len(rows) > 1 else rows.values():
        figures = matched(row, words)
        if figures is not None:
            is_error = is_error or row.rank in ("cause", "error", "consequence")
            yield row, figures
    if not is_error:
        last = python.exception_of(words)
        if last is not None:
            yield last, {}


def _place(row: Said) -> tuple[bool, int]:
    """Phases first: a line may begin one and fail in it."""
    return row.rank != "mark", _ORDER[row.code]


def matched(row: Said, text: str) -> dict[str, int] | None:
    """The figures of a row in a text; None where its pattern is not in it."""
    if row.is_allocation:
        if row.pattern is not None and not row.pattern.search(text):
            return None
        found = pytorch.allocation_of(text)
        return found.figures if found.gpu is None else {**found.figures, "gpu": found.gpu}
    if row.pattern is None:
        return {}
    match = row.pattern.search(text)
    return None if match is None else figures_of(row, match)


class LogReader:
    """Bytes in, facts out."""

    def __init__(self) -> None:
        self._lines = LineReader()
        self._facts = FactReader()

    @property
    def lines(self) -> int:
        """Lines begun so far."""
        return self._lines.count

    def feed(self, data: bytes) -> Iterator[Fact]:
        """The facts of the lines that these bytes complete."""
        return self._facts.read(self._lines.feed(data))

    def close(self) -> Iterator[Fact]:
        """What is left at the end of the log."""
        yield from self._facts.read(self._lines.close())
        yield from self._facts.close()


