"""The fees of an offer, one line of the bill each.

Legend: a amount of the fee, q quantity it is charged on, less what is included; h hours, m hours of a month.
    once a      percent a / 100 x price      per hour a x h      per GB a x q      per GB and month a x q x h / m
A month of 720, 730 or 744 hours is never presumed. Where a fee is charged by time, what is not in use may be charged
too: at the least for the hours of work, as planned for all that is paid, unless the document says which.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from capienza.catalog.offer import Fee
from capienza.decide.used import Job, Used, shown, span
from capienza.errors import Message, template
from capienza.plan.hours import ZERO
from capienza.units import Money

GB = 10**9

FEE_UNKNOWN = template(
    "decide.fee-unknown",
    "the fee {fee} depends on a quantity that is not stated",
    "ask the seller for its amount on this job, or state the quantity in the card",
)
FEE_VOLUME = template(
    "decide.fee-volume-unknown",
    "the fee {fee} is by volume, and the card does not state {field}",
    "write {field} in the card, in GB",
)
FEE_MONTH = template(
    "decide.fee-month-unknown",
    "the fee {fee} is per GB and month, and the document does not say how many hours a month has: 720, 730 or 744",
    "ask the seller, and write month_hours beside the fee",
)
FEE_STOPPED = template(
    "decide.fee-while-stopped",
    "the document does not say whether the fee {fee} is charged for hours without work; the planned figure counts them",
    "ask the seller, and write billed_when_stopped beside the fee",
)
FEE_CURRENCY = template(
    "decide.fee-currency",
    "the fee {fee} is in {currency}, the price in another currency",
    "ask the seller for a total in one currency",
)

VOLUME_FIELDS = {"storage": "host.storage", "egress": "host.egress"}
"""Where the card states what a fee by volume is charged on."""


class FeeLine(NamedTuple):
    """A fee on the bill. `planned` None: not known, for the reason in `missing`."""

    name: str
    least: Decimal | None
    planned: Decimal | None
    formula: str
    missing: Message | None = None
    note: Message | None = None


def fee_line(fee: Fee, least: Money | None, planned: Money | None, used: Used, job: Job) -> FeeLine:
    """The line of one fee beside a price of `least` and `planned`."""
    name, amount, currency = f"fee.{fee.kind}", fee.money.amount, fee.money.currency
    if fee.unit == "percent":
        return _percent(name, amount, least, planned)
    price_currency = least.currency if least else currency
    if currency != price_currency:
        return FeeLine(
            name, None, None, f"{amount:f} {currency}", missing=FEE_CURRENCY(fee=fee.kind, currency=currency)
        )
    if fee.unit == "once":
        return FeeLine(name, amount, amount, f"{amount:f} {currency}")
    if fee.unit == "per_hour":
        return _per_hour(name, fee, used)
    return _per_volume(name, fee, used, job)


def _percent(name: str, percent: Decimal, least: Money | None, planned: Money | None) -> FeeLine:
    low, high = least.amount if least else ZERO, planned.amount if planned else None
    base = f"{low:f}" if high == low else f"{low:f} .. {'?' if high is None else f'{high:f}'}"
    currency = least.currency if least else ""
    return FeeLine(
        name,
        low * percent / 100,
        None if high is None else high * percent / 100,
        f"{shown(percent)} % x {base} {currency}",
    )


def _per_hour(name: str, fee: Fee, used: Used) -> FeeLine:
    low, high, note = _charged_hours(fee, used)
    amount, currency = fee.money.amount, fee.money.currency
    low, high = max(low - _included(fee), ZERO), max(high - _included(fee), ZERO)
    text = f"{amount:f} {currency}/h x {span(low, high if used.is_stated else None)} h"
    if not used.is_stated:
        return FeeLine(name, amount * low, None, text, FEE_UNKNOWN(fee=fee.kind))
    return FeeLine(name, amount * low, amount * high, text, note=note if low != high else None)


def _per_volume(name: str, fee: Fee, used: Used, job: Job) -> FeeLine:
    amount, currency = fee.money.amount, fee.money.currency
    stored = {"storage": job.storage_bytes, "egress": job.egress_bytes}.get(fee.kind)
    if stored is None:
        field = VOLUME_FIELDS.get(fee.kind)
        why = FEE_UNKNOWN(fee=fee.kind) if field is None else FEE_VOLUME(fee=fee.kind, field=field)
        return FeeLine(name, ZERO, None, f"{amount:f} {currency}/GB x ? GB", why)
    volume = max(Decimal(stored) / GB - _included(fee), ZERO)
    charge = amount * volume
    text = f"{amount:f} {currency}/GB x {shown(volume)} GB"
    if fee.unit == "per_gb":
        return FeeLine(name, charge, charge, text)
    if not volume:
        return FeeLine(name, ZERO, ZERO, text)
    if fee.month_hours is None:
        return FeeLine(name, ZERO, None, f"{text} x ? month", FEE_MONTH(fee=fee.kind))
    low, high, note = _charged_hours(fee, used)
    month = fee.month_hours
    text += f" x {span(low, high if used.is_stated else None)} h / {shown(month)} h"
    if not used.is_stated:
        return FeeLine(name, charge * low / month, None, text, FEE_UNKNOWN(fee=fee.kind))
    return FeeLine(name, charge * low / month, charge * high / month, text, note=note if low != high else None)


def _charged_hours(fee: Fee, used: Used) -> tuple[Decimal, Decimal, Message | None]:
    """Hours that a fee by time is charged for, at the least and as planned, and a note where it is not stated."""
    if fee.billed_when_stopped is False:
        return used.least, used.planned.to_integral_value(ROUND_CEILING), None
    if fee.billed_when_stopped:
        return used.least_elapsed, max(used.paid, used.elapsed), None
    return used.least, max(used.paid, used.elapsed), FEE_STOPPED(fee=fee.kind)


def _included(fee: Fee) -> Decimal:
    return fee.included or ZERO
