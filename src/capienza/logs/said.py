"""The form of a table row: what a known line says, and how it is recognised.

Adding what an engine prints is adding a row. A row speaks of its own line only: which of many lines tells why a run
ended is for `diagnose`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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


GRAM = 4
"""Characters of an anchor by which it is looked up."""


class Index:
    """Finds the rows whose anchors stand in a line, without trying each anchor on each line.

    An anchor is filed under a few of its characters; the pieces of that length in a line are looked up all at once.
    """

    def __init__(self, rows: Iterable[Said]) -> None:
        self._short: dict[str, list[Said]] = {}
        self._by_gram: dict[str, dict[str, list[Said]]] = {}
        for row in rows:
            for anchor in row.anchors:
                if len(anchor) < GRAM:
                    self._short.setdefault(anchor, []).append(row)
                else:
                    filed = self._by_gram.setdefault(_rare(anchor), {})
                    filed.setdefault(anchor, []).append(row)
        self._grams = frozenset(self._by_gram)

    def rows(self, lower: str) -> Iterator[Said]:
        """The rows of every anchor in a lower-case line; a row may come twice."""
        for anchor, rows in self._short.items():
            if anchor in lower:
                yield from rows
        pieces = {lower[start : start + GRAM] for start in range(len(lower) - GRAM + 1)}
        for gram in pieces & self._grams:
            for anchor, rows in self._by_gram[gram].items():
                if anchor in lower:
                    yield from rows


def _rare(anchor: str) -> str:
    """The piece of an anchor that other lines are least likely to hold: of its rarest letters."""
    pieces = [anchor[start : start + GRAM] for start in range(len(anchor) - GRAM + 1)]
    return min(pieces, key=lambda piece: (sum(_COMMON.find(letter) + 1 for letter in piece), piece))


_COMMON = "zqxjkvbpygfwmucldrhsnioate "
"""Letters from rare to common in English; what is none of them is rarer still."""
