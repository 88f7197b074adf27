"""vLLM versions: which rules an engine of a given version follows.

Sources: the wheels 0.6.3, 0.8.5, 0.11.2, 0.21.0 and 0.33.0, and the pull requests that changed a rule. A version
that is not stated, or newer than what was read, takes the newest rules, and the note says so.
"""

from __future__ import annotations

import re

import msgspec

NEWEST_READ = (0, 33, 0)
_NUMBERS = re.compile(r"(\d+)\.(\d+|x)(?:\.(\d+|x))?", re.ASCII)


class Version(msgspec.Struct, frozen=True, order=True):
    """A release. `is_v1` tells which of the two engines runs: V1 by default from 0.8.0, alone from 0.11."""

    number: tuple[int, int, int] = NEWEST_READ
    is_v1: bool = True
    is_stated: bool = False

    def is_at_least(self, *number: int) -> bool:
        """Is this release that one, or newer?"""
        return self.number >= number


def read_version(text: str | None, *, use_v1: bool | None = None) -> Version:
    """The release that a text names, such as "0.11.2" or "v0.8.5.post1"; `use_v1` chooses the engine where both exist.

    Without a number the newest rules are taken and `is_stated` is false.
    """
    match = _NUMBERS.search(text or "")
    if match is None:
        return Version()
    major, minor, patch = (int(part) if part and part != "x" else 0 for part in match.groups())
    number = (major, minor, patch)
    chosen = number >= (0, 8, 0) if use_v1 is None else use_v1
    return Version(number, chosen or number >= (0, 11, 0), True)
