"""Counters' readings. Different counters, and peaks of different moments, do not add up (DESIGN rule 4)."""

from __future__ import annotations

from typing import Literal, NoReturn

import msgspec

from capienza.ledger.phase import Phase

Counter = Literal["allocated", "reserved", "process", "device"]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of one counter on one device. `is_peak` marks a maximum over a phase."""

    counter: Counter
    amount_bytes: int
    phase: Phase
    device: str
    is_peak: bool = True

    def __add__(self, other: object) -> NoReturn:
        message = (
            "readings do not add up: they are of different counters or moments; "
            "use conservative_sum() for a declared sum of maxima"
        )
        raise TypeError(message)

    __radd__ = __add__


def conservative_sum(readings: list[Reading]) -> int:
    """Sum of maxima of one counter on one device: a conservative envelope, not a peak.

    Raises `TypeError` when counters or devices differ.
    """
    kinds = {(reading.counter, reading.device) for reading in readings}
    if len(kinds) > 1:
        message = f"a conservative envelope needs one counter on one device, got {sorted(kinds)}"
        raise TypeError(message)
    return sum(reading.amount_bytes for reading in readings)
