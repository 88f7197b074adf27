"""The form of a table row: what a known line says, and how it is recognised.

Adding what an engine prints is adding a row. A row speaks of its own line only: which of many lines tells why a run
ended is for `diagnose`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from capienza.logs.figures import FIGURES, NUMBER, SIZE, size_bytes

Memory = Literal["device", "host", "no", "unknown"]
Rank = Literal["cause", "error", "consequence", "notice", "mark"]
"""How near to the root a line stands: a stated cause; an error of a general kind; what follows from an error elsewhere
(a launcher's exit status, an engine that is dead); a warning of little weight; no failure at all, but a phase."""

AT_ONCE = 600
"""Characters after a line's own that its figures may stand in, where a log was wrapped."""


class Said(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One known line.

    `anchors` are lower-case texts of which one must stand in the line; `pattern`, where given, must match too, and its
    groups named like the figures of `figures` are read (`unit` is that of numbers without one, `gpu` the index). An
    empty `phase` or `cause` is one that the line leaves open.
    `is_fatal` is None where the line's own level tells; `is_wrapped` lines may go on in the next ones; `is_allocation`
    lines are PyTorch's own, whose figures `allocation` reads; `is_progress` lines are written while the run works.
    """

    code: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    rank: Rank = "cause"
    phase: str = ""
    cause: str = ""
    memory: Memory = "unknown"
    is_fatal: bool | None = True
    unit: str = ""
    is_decimal: bool = False
    is_wrapped: bool = False
    is_allocation: bool = False
    is_progress: bool = False
    detail: str = ""


def said(
    code: str,
    anchors: str,
    pattern: str = "",
    *,
    rank: Rank = "cause",
    phase: str = "",
    cause: str = "",
    memory: Memory = "unknown",
    is_fatal: bool | None = True,
    unit: str = "",
    is_decimal: bool = False,
    is_wrapped: bool = False,
    is_allocation: bool = False,
    detail: str = "",
) -> Said:
    """A row. Anchors are parted by ` | `.

    In `pattern`, `<name>` is a size or number of that figure, `<n>` any number, a space any white space, and ` ?`
    white space or none.
    """
    return Said(
        code=code,
        anchors=tuple(anchors.lower().split(" | ")),
        pattern=_compiled(pattern) if pattern else None,
        rank=rank,
        phase=phase,
        cause=cause,
        memory=memory,
        is_fatal=is_fatal,
        unit=unit,
        is_decimal=is_decimal,
        is_wrapped=is_wrapped,
        is_allocation=is_allocation,
        detail=detail,
    )


def enters(
    code: str, anchors: str, phase: str, pattern: str = "", unit: str = "", *, is_progress: bool = False
) -> Said:
    """A row of a line that says in which phase the engine is from now on ("" after a phase, before the next)."""
    row = said(code, anchors, pattern, rank="mark", phase=phase, memory="no", is_fatal=False, unit=unit)
    return msgspec.structs.replace(row, is_progress=is_progress)


def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern.replace(" ?", r"\s*").replace(" ", r"\s+").replace("<n>", NUMBER)
    for name in FIGURES:
        text = text.replace(f"<{name.removesuffix('_bytes')}>", rf"(?P<{name}>{SIZE}|{NUMBER})", 1)
    return re.compile(text.replace("<gpu>", r"(?P<gpu>\d{1,3})"), re.IGNORECASE)


def figures_of(row: Said, match: re.Match[str]) -> dict[str, int]:
    """The figures that a row's pattern found, in bytes, and the GPU's index."""
    found = {}
    for name, text in match.groupdict().items():
        if text is None:
            continue
        value = int(text) if name == "gpu" else size_bytes(text, row.unit or "B", is_decimal=row.is_decimal)
        if value is not None:
            found[name] = value
    return found


PIECE = 4
"""Characters of the pieces into which a line is cut, and by which an anchor is looked up."""
SHORTEST = 2 * PIECE - 1
"""An anchor of this length holds a whole piece of a line, wherever in it the anchor stands."""
_PIECES = re.compile("." * PIECE, re.DOTALL)
_DIGITS = str.maketrans("", "", "0123456789")
KEPT_SHAPES, KEPT_CHARACTERS = 8192, 400
"""Shapes that are remembered, and the longest of them."""


def shape_of(text: str) -> str:
    """A line in lower case without its digits: what a program prints again and again has few shapes."""
    return text.lower().translate(_DIGITS)


class Index:
    """Finds the rows whose anchors stand in a line, without trying each anchor on each line.

    A shape is cut into pieces side by side; of an anchor in it, one of so many pieces that begin one after another is
    among them. An anchor is filed under those that other lines are least likely to hold, and all pieces of a shape are
    looked up at once. What was found is remembered: the next line of that shape is compared with the same few anchors.
    """

    def __init__(self, rows: Iterable[Said]) -> None:
        self._short: dict[str, list[tuple[str, Said]]] = {}
        self._by_piece: dict[str, dict[str, list[tuple[str, Said]]]] = {}
        for row in rows:
            for anchor in row.anchors:
                shape = shape_of(anchor)
                if len(shape) < SHORTEST:
                    self._short.setdefault(shape, []).append((anchor, row))
                    continue
                for piece in _rare(shape):
                    self._by_piece.setdefault(piece, {}).setdefault(shape, []).append((anchor, row))
        self._pieces = frozenset(self._by_piece)
        self._remembered = functools.lru_cache(KEPT_SHAPES)(self._filed)

    def rows(self, words: str, shape: str) -> list[Said]:
        """The rows of every anchor in a line of this shape; a row may come twice."""
        filed = self.filed(shape)
        if not filed:
            return []
        lower = words.lower()
        return [row for anchor, row in filed if anchor in lower]

    def filed(self, shape: str) -> tuple[tuple[str, Said], ...]:
        """The anchors, with their rows, that stand in a line of this shape but for their digits."""
        return self._remembered(shape) if len(shape) <= KEPT_CHARACTERS else self._filed(shape)

    def _filed(self, shape: str) -> tuple[tuple[str, Said], ...]:
        found = [pair for short, pairs in self._short.items() if short in shape for pair in pairs]
        for piece in self._pieces.intersection(_PIECES.findall(shape)):
            for anchor, pairs in self._by_piece[piece].items():
                if anchor in shape:
                    found += pairs
        return tuple(found)


def _rare(anchor: str) -> list[str]:
    """As many pieces of an anchor in a row as one is long: those of the rarest letters."""
    windows = [
        [anchor[at : at + PIECE] for at in range(start, start + PIECE)] for start in range(len(anchor) - SHORTEST + 1)
    ]
    return min(windows, key=lambda pieces: (max(sum(map(_COMMON.find, piece)) for piece in pieces), pieces))


_COMMON = "zqxjkvbpygfwmucldrhsnioate "
"""Letters from rare to common in English; what is none of them is rarer still."""
