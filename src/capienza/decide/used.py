"""The hours of a job on an offer: those of work, those that go by, and those that are paid.

Legend: h hours of work; e hours that go by while they are done (more than h where the card has daily hours); paid hours
are at least the seller's minimum and its term unless that can be cancelled, rounded up to the billing step. No document
says that the hours between two pieces of work are free: they are paid as planned, and not at the least.
"""

from __future__ import annotations

import functools
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

import msgspec

from capienza.catalog.offer import Price
from capienza.plan.hours import ZERO, Hours

SECONDS = Decimal(3600)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a card asks an offer to be priced for. None: the card does not say.

    `open_steps` are those of its steps whose hours nothing states.
    """

    hours: Hours = Hours()
    open_steps: tuple[str, ...] = ()
    storage_bytes: int | None = None
    egress_bytes: int | None = None
    gpus: int = 1


class Used(NamedTuple):
    """Hours of a job on one offer, at the least and as planned.

    `limit` is how long the price is stated for, `why` how the planned paid hours come about.
    """

    least: Decimal
    least_elapsed: Decimal
    paid_least: Decimal
    planned: Decimal
    elapsed: Decimal
    paid: Decimal
    limit: Decimal | None
    why: str
    is_stated: bool


def used_hours(price: Price, hours: Hours) -> Used:
    """Hours on the bill; with no billing step stated, exact at the least and rounded up to whole hours as planned."""
    if price.kind == "total":
        term, usable, elapsed = price.term_hours or ZERO, price.usable_hours, hours.planned_elapsed
        limit = price.term_hours if usable is None else min(usable, price.term_hours or usable)
        paid = max(term, elapsed)
        return Used(hours.least, hours.least_elapsed, term, hours.planned, elapsed, paid, limit, "", hours.is_stated)
    limit, least, elapsed = price.max_hours, hours.least, hours.planned_elapsed
    # Beyond the longest time that it can be had nothing says what is paid.
    paid_least = _paid(price, least if limit is None else min(least, limit), price.billing_step_s)
    step_s = price.billing_step_s or 3600
    paid = _paid(price, elapsed, step_s)
    why = "" if paid == elapsed else _why(price, elapsed, step_s)
    return Used(least, hours.least_elapsed, paid_least, hours.planned, elapsed, paid, limit, why, hours.is_stated)


def _floor(price: Price) -> Decimal:
    """What is paid whatever is used: the seller's minimum, and its term unless that can be cancelled."""
    term = None if price.cancellable else price.term_hours
    return max(price.min_hours or ZERO, term or ZERO)


def _paid(price: Price, hours: Decimal, step_s: int | None) -> Decimal:
    paid = max(hours, _floor(price))
    if step_s is None:
        return paid
    return (paid * SECONDS / step_s).to_integral_value(ROUND_CEILING) * step_s / SECONDS


def _why(price: Price, hours: Decimal, step_s: int) -> str:
    least = _floor(price)
    asked = f"max({shown(hours)}, {shown(least)})" if least > hours else shown(hours)
    return f"ceil({asked})" if step_s == SECONDS else f"ceil({asked} h / {step_s} s)"


@functools.lru_cache(4096)
def shown(number: Decimal) -> str:
    """A number for a formula: at most six decimals, no needless zeros."""
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= 0:
        return f"{number:f}"
    return f"{round(number, 6).normalize():f}"


def span(least: Decimal, planned: Decimal | None) -> str:
    """The least and the planned number; one where they are equal."""
    if planned is None:
        return f"{shown(least)} .. ?"
    return shown(planned) if least == planned else f"{shown(least)} .. {shown(planned)}"
