"""Three-valued logic (strong Kleene): FALSE < UNKNOWN < TRUE.

And is the minimum, or the maximum, not swaps the ends. `bool()` raises, so that an unknown can never be
collapsed by accident. An empty conjunction decides nothing and is UNKNOWN (DESIGN rule 7).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NoReturn


class Truth(enum.Enum):
    """The value of a criterion. Compare with `is`; `if value:` raises `TypeError`."""

    FALSE = 0
    UNKNOWN = 1
    TRUE = 2

    def __bool__(self) -> NoReturn:
        message = f"{self} has no two-valued meaning; compare it with `is`"
        raise TypeError(message)

    def __and__(self, other: Truth) -> Truth:
        return Truth(min(self.value, other.value))

    def __or__(self, other: Truth) -> Truth:
        return Truth(max(self.value, other.value))

    def __invert__(self) -> Truth:
        return Truth(2 - self.value)


def all_of(values: Iterable[Truth]) -> Truth:
    """Strong Kleene conjunction; UNKNOWN when there is nothing to decide on."""
    lowest: Truth | None = None
    for value in values:
        if value is Truth.FALSE:
            return value
        if lowest is not Truth.UNKNOWN:
            lowest = value
    return Truth.UNKNOWN if lowest is None else lowest


def compare_at_most(lowest: int, highest: int, limit_low: int, limit_high: int) -> Truth:
    """Is a need in [lowest, highest] at most a limit in [limit_low, limit_high]?

    TRUE when it holds for every pair of values, FALSE when for none, otherwise UNKNOWN.
    """
    if highest <= limit_low:
        return Truth.TRUE
    if lowest > limit_high:
        return Truth.FALSE
    return Truth.UNKNOWN
