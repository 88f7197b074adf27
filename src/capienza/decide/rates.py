"""Exchange rates on record, and what a cost comes to in the currency of the cap.

Legend: rate r with unit "EUR/USD": one EUR costs r USD; read in either direction. Rates of equal rank all count: the
least of a cost is by the one that makes it least, the planned by the one that makes it most. A rate whose scope names
another offer or seller counts for that one alone.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import NamedTuple

import msgspec

from capienza.card.model import Budget
from capienza.decide.case import Case
from capienza.decide.cost import Converted, Cost, rounded
from capienza.decide.documents import VALUE_UNREADABLE
from capienza.errors import Message
from capienza.evidence.claims import ANY, EXCHANGE_RATE, find
from capienza.evidence.rank import rank
from capienza.evidence.record import Record
from capienza.units import Money

_RATE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)


class Rate(NamedTuple):
    """What one unit of a currency is in the other, by a record."""

    record: Record
    factor: Decimal


class Rates(NamedTuple):
    """The rates that count, and why others do not."""

    rates: tuple[Rate, ...]
    reasons: tuple[Message, ...]


def rates_of(case: Case, cap_currency: str) -> Rates:
    """The rates between the offer's currency and that of the cap; looked up once for a card class."""
    key = ("rates", case.cost.currency, cap_currency)
    known: Rates | None = case.shared.get(key)
    if known is None:
        known = case.shared[key] = _rates(case, case.cost.currency or "", cap_currency)
    return known


def converted_cost(case: Case) -> Converted | None:
    """The cost in the currency of the cap by rates of the highest rank; None without one, or with no need of one."""
    budget = case.card.budget
    if not isinstance(budget, Budget) or case.cost.currency in (None, budget.cap.currency):
        return None
    rates = rates_of(case, budget.cap.currency).rates
    if not rates:
        return None
    top = max(rank(one.record) for one in rates)
    counting = [one for one in rates if rank(one.record) == top]
    costs = [convert(one.factor, budget.cap.currency, case.cost) for one in counting]
    least = [cost.minimum for cost in costs if cost.minimum is not None]
    planned = [cost.planned for cost in costs if cost.planned is not None]
    if not least:
        return None
    return Converted(
        minimum=min(least, key=_amount),
        planned=max(planned, key=_amount, default=None),
        records=tuple(dict.fromkeys(one.record.id for one in counting)),
    )


def convert(factor: Decimal, currency: str, cost: Cost) -> Cost:
    """The cost in another currency: the least rounded downwards, the planned upwards."""

    def convert(money: Money | None, rounding: str) -> Money | None:
        return Money(rounded(money.amount * factor, rounding), currency) if money else None

    return msgspec.structs.replace(
        cost, minimum=convert(cost.minimum, ROUND_FLOOR), planned=convert(cost.planned, ROUND_CEILING)
    )


def _rates(case: Case, currency: str, cap_currency: str) -> Rates:
    rates: list[Rate] = []
    reasons = list(case.evidence.aside(EXCHANGE_RATE))
    for record in case.evidence.about(EXCHANGE_RATE):
        weak = case.evidence.weak.get(record.id, ())
        reasons += weak
        if record.kind != "document" or weak or not _speaks_of(record, case):
            continue
        for claim in find(record, EXCHANGE_RATE):
            factor = _factor(currency, cap_currency, str(claim.value), claim.unit or "")
            if factor is None:
                found = f"{claim.value} {claim.unit or ''}".strip()
                reasons.append(VALUE_UNREADABLE(document=record.id[:12], field=EXCHANGE_RATE, found=found))
            else:
                rates.append(Rate(record, factor))
    return Rates(tuple(rates), tuple(reasons))


def _speaks_of(record: Record, case: Case) -> bool:
    scope, offer = record.scope, case.offer
    return scope.offer in (None, ANY, offer.id) and scope.provider in (None, ANY, offer.provider)


def _factor(currency: str, cap_currency: str, value: str, unit: str) -> Decimal | None:
    """What one unit of `currency` is in the other; None when the text is no such rate, or one of other currencies."""
    rate = Decimal(value) if _RATE.fullmatch(value) else Decimal(0)
    if not rate:
        return None
    if unit == f"{currency}/{cap_currency}":
        return rate
    return 1 / rate if unit == f"{cap_currency}/{currency}" else None


def _amount(money: Money) -> Decimal:
    return money.amount
