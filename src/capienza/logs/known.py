"""What the tables know of a line: one file per program, gathered here and looked up by their anchors."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

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
from capienza.logs.allocation import allocation_of
from capienza.logs.said import KEPT_CHARACTERS, KEPT_SHAPES, Index, Said, figures_of, shape_of

AROUND = 2048
"""Characters around an anchor in which the pattern of its row is looked for."""
TABLES = (pytorch, cuda, system, vllm, sglang, llamacpp, servers, training, tensorflow)
ROWS: tuple[Said, ...] = tuple(row for table in TABLES for row in table.ROWS)
INDEX = Index(ROWS)
_ORDER = {row.code: place for place, row in enumerate(ROWS)}
_ADVICE = re.compile(
    r"\b(?:if|in case|avoid\w*|prevent\w*|tips?|hint|note|may|might|when|helps?|against)\b[^.;]{0,80}?"
    r"\b(?:out[- ]of[- ]memory|OOM)\b",
    re.IGNORECASE,
)
_HAPPENED = re.compile(r"tried to allocate|(?:Error|Exception)\b\W{0,3}:|\ballocating [0-9]|\bfailed\b", re.IGNORECASE)
_TELLING = re.compile(
    "memory|alloc|[gm]ib|error|exception|interrupt|stopiteration|systemexit|traceback|recent call|direct cause|raise "
    r'|file "|\.py| in |   |\W  |\t|[❱>^~]|^[\s│┃]|prompt: |output: |reqinput\(|[:|)\]] *$'
)
"""What no table files and may make a line part of a stack or of a wrapped message, or leave it without words."""
_FAILING = ("cause", "error", "consequence")


class Known(NamedTuple):
    """What the tables know of a line: rows with figures, and rows that may match once the next lines are there."""

    rows: list[tuple[Said, dict[str, int]]]
    waiting: list[Said]


def known(words: str, shape: str = "") -> Known:
    """The rows that a line matches, in the order of the tables; a traceback's last line always has one.

    `shape` is that of the words, or of a longer text that they are part of, where it is at hand.
    """
    rows = INDEX.rows(words, shape or shape_of(words))
    found = Known([], [])
    is_error = is_of_memory = False
    for row in sorted({row.code: row for row in rows}.values(), key=_place) if len(rows) > 1 else rows:
        figures = matched(row, words if len(words) <= AROUND else around(row, words, words.lower()))
        if figures is not None:
            is_error = is_error or row.rank in _FAILING
            found.rows.append((row, figures))
        elif row.is_wrapped:
            found.waiting.append(row)
        is_of_memory = is_of_memory or row.memory in ("device", "host")
    last = python.exception_of(words)
    if (last is not None and python.is_never_memory(last)) or (is_of_memory and is_advice(words)):
        found.rows[:] = [(row, figures) for row, figures in found.rows if row.memory not in ("device", "host")]
        found.waiting.clear()
        is_error = any(row.rank in _FAILING for row, _ in found.rows)
    if last is not None and not is_error:
        found.rows.append((last, {}))
    return found


def is_plain(shape: str) -> bool:
    """Does a line of this shape tell nothing: no anchor, no word of a stack, of an exception or of memory?"""
    return len(shape) <= KEPT_CHARACTERS and _is_plain_shape(shape)


@functools.lru_cache(KEPT_SHAPES)
def _is_plain_shape(shape: str) -> bool:
    return not INDEX.filed(shape) and not _TELLING.search(shape)


def is_advice(words: str) -> bool:
    """Does a line speak of running out of memory as of something that may happen?"""
    lower = words[:AROUND].lower()
    if "of memory" not in lower and "of-memory" not in lower and "oom" not in lower:
        return False
    return _ADVICE.search(words, 0, AROUND) is not None and not _HAPPENED.search(words, 0, AROUND)


def around(row: Said, words: str, lower: str) -> str:
    """What stands around a row's first anchor in a very long line: the pattern need not search all of it."""
    at = min(place for place in map(lower.find, row.anchors) if place >= 0)
    return words[max(0, at - AROUND // 4) : at + AROUND * 3 // 4]


def _place(row: Said) -> tuple[bool, int]:
    """Phases first: a line may begin one and fail in it."""
    return row.rank != "mark", _ORDER[row.code]


def matched(row: Said, text: str) -> dict[str, int] | None:
    """The figures of a row in a text; None where its pattern is not in it."""
    if row.is_allocation:
        if row.pattern is not None and not row.pattern.search(text):
            return None
        found = allocation_of(text)
        return found.figures if found.gpu is None else {**found.figures, "gpu": found.gpu}
    if row.pattern is None:
        return {}
    match = row.pattern.search(text)
    return None if match is None else figures_of(row, match)


def most(found: list[dict[str, int] | None]) -> dict[str, int] | None:
    """The reading with the most figures; the first of equals."""
    return max((figures for figures in found if figures is not None), key=len, default=None)
