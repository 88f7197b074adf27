"""Lines that a terminal cut at its width, joined again.

Legend: the width of a log is the length of its longest line, where lines of just that length are as many as chance
does not give, or it is a usual width. Such a line goes on in the next one, unless that begins as a line of its own
does. A longer line shows that nothing was cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from capienza.logs.lines import Line
from capienza.logs.prefix import taken_apart

WIDTHS = range(60, 301)
"""Columns that a terminal may have."""
USUAL = frozenset({80, 100, 120, 132})
LEAST = 3
"""Lines of the full length that tell a width; one where it is a usual one."""
MOST_WAITING = 500
"""Lines that are held back until the width is known."""
MOST_CHARACTERS = 8000
ALIKE = 20
"""Characters that lines of one kind begin with."""
_BEGINS = re.compile(
    r"\s{2}|\t|$|\[\w|\(\w+ pid=|Traceback \(|During handling|The above exc|File \"|[╭╰│┃❱]|[#=*+-]{2}|[|>] |\d+%"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b|(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL)\b|\{"
    r"|\d\d:\d\d:\d\d|[IWEF]\d{4} |[a-z]+_\w+: |llama_|ggml_|time=|srv |slot "
)
"""How a line of its own begins."""


class Unwrapper:
    """Takes lines as they stand and gives them as they were printed; a joined line has the number of its first part."""

    def __init__(self) -> None:
        self._waiting: list[Line] = []
        self._width: int | None = None
        self._is_decided = False
        self._open: Line | None = None

    def feed(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines that are whole; the first ones wait until it is known whether lines were cut."""
        for line in lines:
            if self._is_decided:
                yield from self._joined(line)
                continue
            self._waiting.append(line)
            if len(line.text) >= WIDTHS.stop or len(self._waiting) >= MOST_WAITING:
                yield from self._decided()

    def close(self) -> Iterator[Line]:
        """What is left."""
        yield from self._decided()
        yield from self._let_go()

    def _decided(self) -> Iterator[Line]:
        waiting, self._waiting, self._is_decided = self._waiting, [], True
        self._width = width_of(waiting)
        for line in waiting:
            yield from self._joined(line)

    def _joined(self, line: Line) -> Iterator[Line]:
        if self._width is None:
            yield line
            return
        if len(line.text) > self._width:
            self._width = None
        before, self._open = self._open, None
        if before is not None and self._goes_on(before, line):
            whole = Line(before.number, before.text + line.text)
        else:
            if before is not None:
                yield before
            whole = line
        if len(line.text) == self._width and len(whole.text) < MOST_CHARACTERS:
            self._open = whole
        else:
            yield whole

    def _goes_on(self, before: Line, line: Line) -> bool:
        text = line.text
        is_alike = text[:ALIKE] == before.text[:ALIKE]
        return line.number != before.number and not (is_alike or _BEGINS.match(text) or taken_apart(text).words != text)

    def _let_go(self) -> Iterator[Line]:
        if self._open is not None:
            yield self._open
            self._open = None


def width_of(lines: list[Line]) -> int | None:
    """The width at which these lines were cut; None where nothing tells that they were."""
    longest = max((len(line.text) for line in lines), default=0)
    full = sum(len(line.text) == longest for line in lines[:-1])
    return longest if longest in WIDTHS and full >= (1 if longest in USUAL else LEAST) else None
