"""A stream of bytes as facts: calls of a stack, starts and links of tracebacks, and lines that a table knows.

Facts come as soon as their line is whole, so that a running command can be followed. A message that goes on in the next
lines comes again, with the same line number and more figures. Nothing is kept but the last line and one open message:
memory does not grow with the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from capienza.logs.frames import (
    BARS,
    Call,
    Frame,
    call_of,
    calls_on_one_line,
    code_of,
    function_of,
    is_cut_path,
    is_neighbour,
)
from capienza.logs.known import INDEX, is_plain, known, matched, most
from capienza.logs.lines import Line, LineReader
from capienza.logs.prefix import level_of, taken_apart
from capienza.logs.quoted import is_quoted
from capienza.logs.said import AT_ONCE, Said, shape_of
from capienza.logs.wrapped import Unwrapper

Kind = Literal["traceback", "chained", "frame", "said"]
NEIGHBOURS = 16
"""Most lines of code that a boxed stack shows before or after the one that was called."""
KEPT_CHARACTERS = 600
"""Longest text of a line that a fact carries."""
BROKEN = re.compile(r"memory|allocate|GiB|MiB", re.IGNORECASE)
"""Words of messages that are looked for again together with the line before, where a log was wrapped inside them."""
SEAM = 200
"""Characters on each side of a line's end in which such a message is looked for."""
INNER_FIRST = "(most recent call first)"
"""Of the stacks that Python dumps when it is killed by a signal."""
_HEADS = ("Traceback (most recent call last)", INNER_FIRST)
FAILED = frozenset({"cause", "error"})
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
    """A message that may go on in the next lines: `text` joined at words, `glued` where a terminal cut inside one."""

    row: Said
    line: int
    source: str
    level: str
    first: str
    text: str
    glued: str
    figures: dict[str, int] | None
    lines_left: int = 8


class _Named(msgspec.Struct):
    """A call whose line of code may still come."""

    call: Call
    line: int
    source: str
    is_flat: bool
    neighbours_left: int = NEIGHBOURS


class FactReader:
    """Turns lines into facts, one line at a time."""

    def __init__(self) -> None:
        self._call: _Named | None = None
        self._beside = 0
        self._broken = ""
        self._before = ""
        self._open: list[_Open] = []

    def read(self, lines: Iterable[Line]) -> Iterator[Fact]:
        """The facts of these lines."""
        for line in lines:
            shape = shape_of(line.text)
            if is_plain(shape) and not (self._call or self._open or self._broken or self._beside):
                self._before = line.text or self._before
            else:
                yield from self._line(line, shape)

    def close(self) -> Iterator[Fact]:
        """The call whose line of code never came."""
        yield from self._without_code()

    def _line(self, line: Line, shape: str) -> Iterator[Fact]:
        source, words = taken_apart(line.text)
        if is_quoted(words):
            self._before = ""
            return
        head = "most recent call" in words and next((head for head in _HEADS if head in words), "")
        if head:
            yield from self._without_code()
            yield Fact(kind="traceback", line=line.number, source=source, text=head)
        if self._broken:
            words, self._broken = self._broken + words.strip(), ""
            shape = shape_of(words)
        elif line.text[:1] in BARS and is_cut_path(words):
            self._broken = words.strip()
            return
        elif 'File "' in words and words.count('"') == 1 and len(words) < KEPT_CHARACTERS:
            self._broken = f"{words} "
            return
        if self._beside:
            self._beside = self._beside - 1 if is_neighbour(words) else 0
            if self._beside:
                return
        found = call_of(words)
        if found is not None:
            yield from self._called(found, words, line, source)
            if "rror" not in words:
                return
        elif self._call is not None:
            name = "" if self._call.call.function else function_of(words)
            if name:
                self._call.call = msgspec.structs.replace(self._call.call, function=name)
                return
            if self._call.call.is_boxed and self._call.neighbours_left and is_neighbour(words):
                self._call.neighbours_left -= 1
                return
        rows, waiting = known(words, shape)
        before, self._before = self._before, line.text if words.strip() else self._before
        if not rows and before and not self._open and BROKEN.search(words, 0, SEAM):
            words, rows, waiting = _joined(taken_apart(before).words, words)
        if self._open and _is_rest(words, rows):
            rows = []
        ranks = {row.rank for row, _ in rows}
        code = None if ranks & FAILED else self._code(words)
        if code is not None:
            yield from self._with_code(code, line, source)
        elif self._call is not None:
            yield from self._without_code()
        if self._open and words.strip():
            yield from self._went_on(words, source, is_other=bool(rows))
        if rows or waiting:
            level = level_of(line.text, words) if waiting or ranks != {"mark"} else ""
            for row, figures in rows:
                yield _said(row, line.number, source, level, words, figures)
                if row.is_wrapped:
                    self._open.append(_Open(row, line.number, source, level, words, words, words, figures))
            for row in waiting:
                self._open.append(_Open(row, line.number, source, level, words, words, words, None))
        elif words.startswith(_CHAINED):
            yield Fact(kind="chained", line=line.number, source=source, text=words[:80])

    def _code(self, words: str) -> str | None:
        """The code of the call before; a stack that lost its indentation has it on the next line all the same."""
        if self._call is not None and self._call.is_flat and not words.startswith((" ", "Traceback")):
            return words.strip() or None
        return code_of(words)

    def _called(self, found: Call, words: str, line: Line, source: str) -> Iterator[Fact]:
        yield from self._without_code()
        self._open.clear()
        if words.count('File "') == 1 or found.is_boxed:
            self._call = _Named(found, line.number, source, is_flat=not found.is_boxed and words.startswith("File"))
            return
        for call, code in calls_on_one_line(words):
            yield _frame(call, code, line.number, source)

    def _with_code(self, code: str, line: Line, source: str) -> Iterator[Fact]:
        named, self._call = self._call, None
        if named is not None:
            self._beside = NEIGHBOURS if named.call.is_boxed else 0
            yield _frame(named.call, code, named.line, named.source)
        elif code:
            yield _frame(Call("", "", False), code, line.number, source)

    def _without_code(self) -> Iterator[Fact]:
        named, self._call = self._call, None
        if named is not None:
            yield _frame(named.call, "", named.line, named.source)

    def _went_on(self, words: str, source: str, *, is_other: bool) -> Iterator[Fact]:
        for message in list(self._open):
            if source and message.source != source:
                continue  # a wrapped line begins without the name of its process
            message.lines_left -= 1
            if is_other or message.lines_left < 0 or len(message.text) > AT_ONCE + len(message.first):
                self._open.remove(message)
                continue
            message.text = f"{message.text.rstrip()} {words.strip()}"
            message.glued += words
            figures = most([matched(message.row, message.text), matched(message.row, message.glued)])
            if figures is not None and (message.figures is None or len(figures) > len(message.figures)):
                message.figures = figures
                yield _said(message.row, message.line, source, message.level, message.first, figures)


def _joined(before: str, words: str) -> tuple[str, list[tuple[Said, dict[str, int]]], list[Said]]:
    """Two lines as one where a known message goes from the first into the second; else the second alone."""
    for joined in (f"{before[-SEAM:].rstrip()} {words.lstrip()}", f"{before[-SEAM:]}{words}"):
        shape = shape_of(joined)
        if INDEX.filed(shape):
            rows, waiting = known(joined, shape)
            if rows or waiting:
                return joined, rows, waiting
    return words, [], []


def _is_rest(words: str, rows: list[tuple[Said, dict[str, int]]]) -> bool:
    """Is it the second half of an allocator's message, which its row would know by itself?"""
    return words.lstrip().lower().startswith("tried to allocate") and all(row.is_allocation for row, _ in rows)


def _frame(call: Call, code: str, line: int, source: str) -> Fact:
    frame = Frame(call.path, call.function, code[:KEPT_CHARACTERS], line, source)
    return Fact(kind="frame", line=line, source=source, text=frame.code or frame.function, frame=frame)


def _said(row: Said, line: int, source: str, level: str, words: str, figures: dict[str, int]) -> Fact:
    text = words.strip()[:KEPT_CHARACTERS]
    return Fact(kind="said", line=line, source=source, level=level, text=text, row=row, figures=figures)


class LogReader:
    """Bytes in, facts out."""

    def __init__(self) -> None:
        self._lines = LineReader()
        self._whole = Unwrapper()
        self._facts = FactReader()

    @property
    def lines(self) -> int:
        """Lines begun so far."""
        return self._lines.count

    def feed(self, data: bytes) -> Iterator[Fact]:
        """The facts of the lines that these bytes complete."""
        return self._facts.read(self._whole.feed(self._lines.feed(data)))

    def close(self) -> Iterator[Fact]:
        """What is left at the end of the log."""
        yield from self._facts.read(self._whole.feed(self._lines.close()))
        yield from self._facts.read(self._whole.close())
        yield from self._facts.close()
