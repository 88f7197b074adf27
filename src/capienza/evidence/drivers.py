"""Versions of a driver, and ranges of them: "550.54.15", or ">=550,<590".

Legend: a version is up to four whole numbers with points between, compared number by number and never as text (550.9 is
before 550.54, 550 is the same as 550.0). A range is one or more bounds with commas between; all of them must hold.
A version alone means exactly that version: the whole branch 580 is written ">=580,<581".
"""

from __future__ import annotations

import re

MAX_LENGTH = 120
_VERSION = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,3}", re.ASCII)
_BOUND = re.compile(rf"(>=|<=|>|<|)\s*({_VERSION.pattern})", re.ASCII)
_STEP = 10**6
"""One more than the largest number in a version: with it the four numbers are one, in the same order."""
_LAST = _STEP**4 - 1


def is_range(text: str) -> bool:
    """Is the text a version or a range that some version is within?"""
    return _interval(text) is not None


def within(version: str, stated: str) -> bool:
    """Is a version within a stated version or range? No, when either cannot be read."""
    interval = _interval(stated)
    if interval is None or not is_version(version):
        return False
    return interval[0] <= _ordinal(version) <= interval[1]


def is_version(text: str) -> bool:
    """Is the text one version that can be compared?"""
    return _VERSION.fullmatch(text) is not None


def _interval(text: str) -> tuple[int, int] | None:
    """The first and the last version of a range as ordinals; None when it is empty or cannot be read."""
    first, last = 0, _LAST
    for part in text[: MAX_LENGTH + 1].split(","):
        match = _BOUND.fullmatch(part.strip())
        if match is None or len(text) > MAX_LENGTH:
            return None
        sign, bound = match[1], _ordinal(match[2])
        if sign in ("", ">", ">="):
            first = max(first, bound + (sign == ">"))
        if sign in ("", "<", "<="):
            last = min(last, bound - (sign == "<"))
    return (first, last) if first <= last else None


def _ordinal(version: str) -> int:
    """The four numbers of a version as one; those left out are 0."""
    numbers = [*map(int, version.split(".")), 0, 0, 0][:4]
    return sum(number * _STEP**place for number, place in zip(numbers, (3, 2, 1, 0), strict=True))
