"""Hours of work, and the time that goes by while they are done.

Legend: h hours of work; d hours of each day in which work goes on (24 where the card states none), in one piece, at a
time of day that is not stated; k = ceil(h / d) days with work. From when the first piece begins, h take at the soonest
    (k - 1) x (24 - d) + h,   and at the latest, when the piece has just ended,   k x (24 - d) + h.
Of e hours that go by, n whole days and r hours, n x d + max(r - (24 - d), 0) are hours of work for certain, and
n x d + min(r, d) at the most.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

import msgspec

DAY = Decimal(24)
ZERO = Decimal(0)


class Hours(msgspec.Struct, frozen=True, kw_only=True):
    """Hours of a whole plan. `least` is proved: it takes no less. `planned` is what has to fit, contingency included.

    `is_stated`: every step has hours. `is_documented`: those of every step are measured or documented.
    `daily` is how many hours of each day there is work; None: day and night.
    """

    least: Decimal = ZERO
    planned: Decimal = ZERO
    is_stated: bool = False
    is_documented: bool = False
    daily: Decimal | None = None

    @property
    def least_elapsed(self) -> Decimal:
        """Hours that go by at the least."""
        return soonest(self.least, self.daily)

    @property
    def planned_elapsed(self) -> Decimal:
        """Hours that go by at the most, as planned."""
        return latest(self.planned, self.daily)


def soonest(hours: Decimal, daily: Decimal | None) -> Decimal:
    """The time in which these hours of work are done at the soonest."""
    return hours if daily is None or not hours else (_days(hours, daily) - 1) * (DAY - daily) + hours


def latest(hours: Decimal, daily: Decimal | None) -> Decimal:
    """The time in which these hours of work are done for certain."""
    return hours if daily is None or not hours else _days(hours, daily) * (DAY - daily) + hours


def workable_for_certain(elapsed: Decimal, daily: Decimal | None) -> Decimal:
    """Hours of work that some time holds, whenever in the day it begins."""
    if daily is None:
        return elapsed
    days, rest = divmod(elapsed, DAY)
    return days * daily + max(rest - (DAY - daily), ZERO)


def workable_at_most(elapsed: Decimal, daily: Decimal | None) -> Decimal:
    """Hours of work that some time holds when it begins at the best moment of the day."""
    if daily is None:
        return elapsed
    days, rest = divmod(elapsed, DAY)
    return days * daily + min(rest, daily)


def _days(hours: Decimal, daily: Decimal) -> Decimal:
    return (hours / daily).to_integral_value(ROUND_CEILING)
