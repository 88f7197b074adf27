"""How many hours a cap pays for: the bill of an hourly offer turned round.

Legend: k billing steps; the bill of k steps never falls as k grows, so the last k within the cap is searched for,
by turns where a straight line would have it and in the middle of what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal

from capienza.catalog.offer import Offer
from capienza.decide.cost import Cost
from capienza.decide.used import SECONDS

MOST_HOURS = Decimal(1_000_000)
"""A cap that pays for more limits no plan."""

SMALLEST_HOURS = Decimal("1e-9")

Bill = Callable[[Decimal], Cost]


def affordable_hours(offer: Offer, bill: Bill, cap: Decimal, planned: Decimal) -> Decimal | None:
    """The most planned hours that the cap pays for, in whole billing steps; None where it sets no limit.

    `bill` is the cost of some planned hours on this offer, `planned` a guess to begin with. Where a part of the bill
    is not known, what must be paid at the least is compared.
    """
    step_s = offer.price.billing_step_s or int(SECONDS)

    def hours_of(steps: int) -> Decimal:
        # Rounded down, so that a third of an hour does not begin another step.
        return (Decimal(steps * step_s) / SECONDS).quantize(SMALLEST_HOURS, ROUND_FLOOR)

    def paid(steps: int) -> Decimal:
        cost = bill(hours_of(steps))
        known = cost.planned or cost.minimum
        return known.amount if known else Decimal(0)

    # Most packages cost the same however long they are used: that is seen at once.
    if paid(int(MOST_HOURS * SECONDS / step_s)) <= cap:
        return None
    low, high = 0, int(planned * SECONDS / step_s) + 1
    while (above := paid(high)) <= cap:
        low, high = high, 2 * high
        if hours_of(low) > MOST_HOURS:
            return None
    below = paid(low)
    by_line = True
    while high - low > 1:
        share = (cap - below) / (above - below) if by_line and below <= cap else Decimal("0.5")
        middle = min(max(low + int((high - low) * share), low + 1), high - 1)
        if (amount := paid(middle)) <= cap:
            low, below = middle, amount
        else:
            high, above = middle, amount
        by_line = not by_line
    return hours_of(low)
