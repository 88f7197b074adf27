"""vLLM versions: which rules an engine of a given version follows.

Sources: the wheels 0.6.3, 0.8.5, 0.11.2, 0.21.0 and 0.33.0, and the pull requests that changed a rule. A version
that is not stated, or newer than what was read, takes the newest rules, an older one the oldest, and the note says so.
"""

from __future__ import annotations

import msgspec

from capienza.predict.inference.release import Read, release

NEWEST_READ = (0, 33, 0)
READ = Read(oldest=(0, 2, 0), newest=NEWEST_READ)
"""Of 0.2 the pull requests that changed a rule were read (0.2.5, 0.2.6)."""


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
    number = release(text, "vllm")
    if number is None:
        return Version()
    chosen = number >= (0, 8, 0) if use_v1 is None else use_v1
    return Version(number, chosen or number >= (0, 11, 0), True)
