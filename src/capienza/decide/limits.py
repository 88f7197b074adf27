"""The largest length and concurrency that a GPU takes, and the entry that binds.

Legend: L tokens of one sequence, S sequences. A need grows with L and with S, so the largest that fits is found by
doubling and halving: at most 2 log2(limit) needs are computed.
    certain    ceiling + margin within the smallest usable capacity, nothing unknown (a predicted fit)
    expected   expected need within the smallest usable capacity
A pool engine must also offer blocks for the whole load: what it would queue is not covered.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from capienza.ledger.capacity import Capacity, fit_word
from capienza.ledger.ledger import Total

LARGEST = 2**31


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What a load needs on the fullest GPU; `amounts` are the expected bytes of each known entry.

    `is_held` is whether the engine's own pool holds it (None: no pool), `queues` whether its settings run fewer
    sequences at once, `is_refused` whether the card's own options refuse it.
    """

    peak: Total
    amounts: dict[str, int]
    is_held: bool | None = None
    queues: bool = False
    is_refused: bool = False


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The largest value of one dimension while the other stays as the card has it.

    0: not even one fits. `binds` is the entry that grows into the capacity, or what else stops it: "model" the longest
    sequence it is made for, "engine" the longest that its options allow, "pool" what the engine offers, "sequences"
    how many its options run at once, "options" what they refuse, "capacity" a card of unknown size, "nothing" no
    limit found. `missing` names entries that are unknown: with them the true limit may be lower, and none is certain.
    """

    dimension: str
    at: int
    expected: int | None
    certain: int | None
    binds: str
    missing: tuple[str, ...] = ()


def limit(
    dimension: str,
    at: int,
    need: Callable[[int], Need],
    capacity: Capacity,
    margin_bytes: int,
    bound: int | None = None,
    bound_by: str = "model",
) -> Limit:
    """The limit of one dimension; `at` is the other's value, `bound` the largest that `bound_by` lets pass."""
    usable = capacity.smallest_usable_bytes
    largest = bound or LARGEST
    first = need(1)
    if usable is None:
        return Limit(
            dimension=dimension, at=at, expected=None, certain=None, binds="capacity", missing=first.peak.missing
        )

    def is_expected(value: int) -> bool:
        found = need(value)
        return found.peak.amount.expected <= usable and _runs(found, dimension)

    def is_certain(value: int) -> bool:
        found = need(value)
        return fit_word(found.peak, capacity, margin_bytes) == "fit" and _runs(found, dimension)

    expected = _largest(is_expected, largest)
    certain = _largest(is_certain, expected) if expected else 0
    return Limit(
        dimension=dimension,
        at=at,
        expected=expected,
        certain=None if first.peak.missing else certain,
        binds=_binds(expected, largest, bound_by if bound else "nothing", need, usable),
        missing=first.peak.missing,
    )


def _runs(need: Need, dimension: str) -> bool:
    """Is the load run at once? How many sequences the settings allow says nothing about their length."""
    return not need.is_refused and need.is_held is not False and not (need.queues and dimension == "concurrency")


def _binds(expected: int, largest: int, bound_by: str, need: Callable[[int], Need], usable: int) -> str:
    if expected == largest:
        return bound_by
    after = need(expected + 1)
    if after.is_refused:
        return "options"
    if after.peak.amount.expected <= usable:
        return "sequences" if after.is_held is not False else "pool"
    before = need(1).amounts
    grown = {name: amount - before.get(name, 0) for name, amount in after.amounts.items()}
    amounts = grown if expected else after.amounts
    return max(amounts, key=amounts.__getitem__)


def _largest(fits: Callable[[int], bool], largest: int) -> int:
    """The largest value up to `largest` that fits, 0 when 1 does not; `fits` is monotone."""
    if not fits(1):
        return 0
    good = 1
    while good < largest and fits(min(2 * good, largest)):
        good = min(2 * good, largest)
    bad = min(2 * good, largest + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good
