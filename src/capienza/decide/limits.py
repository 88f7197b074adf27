"""The largest length, concurrency and microbatch that a GPU takes, and the entry that binds.

Legend: L tokens of one sequence, S sequences at once. What is needed grows with L and with S, so the largest that fits
is found between one that does and one that does not: by the line through the two, which most needs are close to, and by
halving.
    certain    ceiling + margin within the smallest usable capacity, nothing unknown (a predicted fit)
    expected   expected need within the smallest usable capacity
A pool engine must also offer blocks for the whole load: what it would queue is not covered. What an allocator of a
training keeps and would give back is no need. It is in the ceiling, and falls here and there by a block or two where
the load grows: the one found fits and the next does not, and a larger one may again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from capienza.ledger.capacity import Capacity, fit_word
from capienza.ledger.ledger import Total
from capienza.ledger.phase import Phase

LARGEST = 2**31
INTERPOLATED = 2
"""Guesses by the line before one by halves: a bent need must not be searched step by step."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What a load needs on the fullest GPU; `amounts` are the expected bytes of each known entry.

    `is_held` is whether the engine's own pool holds it (None: no pool), `queues` whether its settings run fewer
    sequences at once, `is_refused` whether the card's own options refuse it. Of a training `phase` is the one that
    needs most, `amounts` are those of it, and `where` the part of the program (a layer's number, or a name).
    """

    peak: Total
    amounts: dict[str, int]
    is_held: bool | None = None
    queues: bool = False
    is_refused: bool = False
    phase: Phase | None = None
    where: str = ""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The largest value of one dimension while the other stays as the card has it.

    0: not even one fits; None: unknown. `binds` is the entry that grows into the capacity, or what else stops it:
    "model" the longest sequence it is made for, "engine" the longest that its options allow, "pool" what the engine
    offers, "sequences" how many its options run at once, "options" what they refuse, "capacity" a card of unknown
    size, "unknown" entries that nobody knows, "nothing" no limit found. `missing` names entries that are unknown: with
    them the true limit may be lower, and none is certain. `phase` and `where` are those of `Need`, of the first value
    that does not fit, and `binds_bytes` what the entry takes there. `least_need_bytes` and `least_ceiling_bytes` are
    those of the value 1: where even that does not fit, they say why.
    """

    dimension: str
    at: int
    expected: int | None
    certain: int | None
    binds: str
    missing: tuple[str, ...] = ()
    phase: Phase | None = None
    where: str = ""
    binds_bytes: int | None = None
    least_need_bytes: int | None = None
    least_ceiling_bytes: int | None = None


def limit(
    dimension: str,
    at: int,
    need: Callable[[int], Need],
    capacity: Capacity,
    margin_bytes: int,
    bound: int | None = None,
    bound_by: str = "model",
    whole: Callable[[int], Need] | None = None,
    most: int = LARGEST,
) -> Limit:
    """The limit of one dimension; `at` is the other's value, `bound` the largest that `bound_by` lets pass.

    `whole` gives the need with its whole ceiling, where `need` is quicker and leaves some of it out; `most` is the
    largest value that may be written.
    """
    usable = capacity.smallest_usable_bytes
    largest = bound or most
    first = need(1)
    missing = first.peak.missing
    if usable is None:
        return Limit(dimension=dimension, at=at, expected=None, certain=None, binds="capacity", missing=missing)

    def expected_excess(value: int) -> float:
        found = need(value)
        return found.peak.need_bytes - usable if _runs(found, dimension) else math.inf

    def certain_excess(found: Need) -> float:
        excess = found.peak.amount.ceiling + margin_bytes - usable
        is_certain = fit_word(found.peak, capacity, margin_bytes) == "fit" and _runs(found, dimension)
        return excess if is_certain or excess > 0 else math.inf

    expected = _largest(expected_excess, largest)
    if expected == largest and not bound and missing:
        # What is unknown may be what grows.
        return Limit(dimension=dimension, at=at, expected=None, certain=None, binds="unknown", missing=missing)
    certain = None if missing else 0
    if expected and not missing:
        certain = _largest(lambda value: certain_excess(need(value)), expected)
    if certain and whole is not None:
        certain = _largest(lambda value: certain_excess(whole(value)), certain, is_likely=True)
    least = first if whole is None else whole(1)
    binds, after = _binds(expected, largest, bound_by if bound else "nothing", need, usable)
    return Limit(
        dimension=dimension,
        at=at,
        expected=expected,
        certain=certain,
        binds=binds,
        missing=missing,
        phase=after.phase if after else None,
        where=after.where if after else "",
        binds_bytes=after.amounts.get(binds) if after else None,
        least_need_bytes=None if first.is_refused else first.peak.need_bytes,
        least_ceiling_bytes=None if least.is_refused or missing else least.peak.amount.ceiling,
    )


def _runs(need: Need, dimension: str) -> bool:
    """Is the load run at once? How many sequences the settings allow says nothing about their length."""
    return not need.is_refused and need.is_held is not False and not (need.queues and dimension == "concurrency")


def _binds(
    expected: int, largest: int, bound_by: str, need: Callable[[int], Need], usable: int
) -> tuple[str, Need | None]:
    """What stops it, and the need of the first value that does not fit, where an entry does."""
    if expected == largest:
        return bound_by, None
    after = need(expected + 1)
    if after.is_refused:
        return "options", None
    if after.peak.need_bytes <= usable:
        return ("sequences" if after.is_held is not False else "pool"), None
    before = need(1).amounts
    grown = {name: amount - before.get(name, 0) for name, amount in after.amounts.items()}
    amounts = grown if expected else after.amounts
    return max(amounts, key=amounts.__getitem__), after


def _largest(excess: Callable[[int], float], largest: int, *, is_likely: bool = False) -> int:
    """The largest value up to `largest` without excess, 0 when 1 has some; `excess` is monotone.

    With `is_likely` the largest is tried first.
    """
    high, above = largest + 1, math.inf
    if is_likely:
        high, above = largest, excess(largest)
        if above <= 0:
            return largest
    low, below = 1, excess(1)
    if below > 0:
        return 0
    before: tuple[int, float] | None = None
    turn = 0
    while high - low > 1:
        turn += 1
        guess = _guess(low, below, high, above, before, by_halves=turn % (INTERPOLATED + 1) == 0)
        found = excess(guess)
        if found > 0:
            high, above = guess, found
        else:
            before, low, below = (low, below), guess, found
    return low


def _guess(
    low: int, below: float, high: int, above: float, before: tuple[int, float] | None, *, by_halves: bool
) -> int:
    """Where the limit may lie: on the line through two values, the double of the lower, or in the middle."""
    if math.isfinite(above):
        share = 0.5 if by_halves or below == above else -below / (above - below)
        guess = low + int((high - low) * share)
    elif before is not None and below > before[1] and math.isfinite(before[1]) and not by_halves:
        # One more than the line says: either it does not fit, and the limit is found, or the line was bent.
        guess = low + 1 + int(-below * (low - before[0]) / (below - before[1]))
    else:
        guess = 2 * low
        guess = guess if guess < high else (low + high) // 2
    return min(max(guess, low + 1), high - 1)
