"""Numbers of releases, drivers and toolkits as tuples: "580.95.05" is (580, 95, 5).

Rules name releases as precisely as they hold: one of "0.33" covers every patch of it, one of "0.5.23" that patch alone.
"""

from __future__ import annotations

import re

Release = tuple[int, ...]
_NUMBERS = re.compile(r"\s*v?([0-9]{1,9}(?:\.[0-9]{1,9}){0,3})", re.ASCII | re.IGNORECASE)


def parse_release(text: str | None) -> Release | None:
    """The numbers that a text begins with; None where it begins with none."""
    match = _NUMBERS.match(text or "")
    return tuple(int(part) for part in match[1].split(".")) if match else None


def build_of(text: str | None) -> str:
    """The part of a local version after the plus: "cu130" of "2.14.0+cu130"; empty without one."""
    return (text or "").partition("+")[2].split(".")[0]


def is_within(release: Release, first: Release, last: Release) -> bool:
    """Is the release between two, each taken as precisely as it is written?"""
    return _cut(release, first) >= first and _cut(release, last) <= last


def _cut(release: Release, like: Release) -> Release:
    padded = release + (0,) * max(0, len(like) - len(release))
    return padded[: len(like)]
