"""Versions of a driver, and ranges of them: "550.54.15", or ">=550,<590".

Legend: a version is up to four whole numbers with points between, compared number by number and never as text (550.9 is
before 550.54, 550 is the same as 550.0). A range is one or more bounds with commas between; all of them must hold.
A version alone means exactly that version: the whole branch 580 is written ">=580,<581".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

Version = tuple[int, int, int, int]

_VERSION = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,3}", re.ASCII)
_BOUND = re.compile(rf"(>=|<=|>|<)?\s*({_VERSION.pattern})", re.ASCII)
_HOLDS: dict[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "": operator.eq,
}
MAX_LENGTH = 120


def version_of(text: str) -> Version | None:
    """The numbers of a version, filled up with zeros; None when the text is not one."""
    if not _VERSION.fullmatch(text):
        return None
    first, second, third, fourth = [*map(int, text.split(".")), 0, 0, 0][:4]
    return first, second, third, fourth


def is_range(text: str) -> bool:
    """Is the text a version or a range that some version can be within?"""
    bounds = _bounds(text)
    return bool(bounds) and any(_within(candidate, bounds) for candidate in _candidates(bounds))


def within(version: str, stated: str) -> bool:
    """Is a version within a stated version or range? No, when either cannot be read."""
    found, bounds = version_of(version), _bounds(stated)
    return found is not None and bool(bounds) and _within(found, bounds)


def _bounds(text: str) -> list[tuple[str, Version]]:
    """Operator and version of each bound; empty when any of them cannot be read."""
    if len(text) > MAX_LENGTH:
        return []
    found = []
    for part in text.split(","):
        match = _BOUND.fullmatch(part.strip())
        version = version_of(match[2]) if match else None
        if match is None or version is None:
            return []
        found.append((match[1] or "", version))
    return found


def _within(version: Version, bounds: list[tuple[str, Version]]) -> bool:
    return all(_HOLDS[sign](version, bound) for sign, bound in bounds)


def _candidates(bounds: list[tuple[str, Version]]) -> list[Version]:
    """Versions that tell whether any is within: each bound, its neighbours, and the first of all."""
    ends = [version for _, version in bounds]
    after = [(a, b, c, d + 1) for a, b, c, d in ends]
    # The last one before (a, b, c, d) has no smallest step below it; every number is at most 999999.
    before = [_before(version) for version in ends]
    return [*ends, *after, *before, (0, 0, 0, 0)]


def _before(version: Version) -> Version:
    parts = list(version)
    for index in (3, 2, 1, 0):
        if parts[index]:
            return tuple([*parts[:index], parts[index] - 1, *[999_999] * (3 - index)])  # type: ignore[return-value]
    return version
