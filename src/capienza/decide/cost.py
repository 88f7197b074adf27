"""What an offer costs for the planned hours.

Legend: h hour; U price of all its GPUs for one hour; T total of a package. Hours paid are the hours needed, at
least the seller's minimum, and its term unless that can be cancelled, rounded up to the billing step. A package
costs its total whatever is used of it.
Fees are added to the price in any order: one in percent is of the price alone, tax is on price and fees together.
`minimum` is what is paid at the least (documented durations only), `planned` what the plan of the card comes to.
No price, rate or volume is presumed: what is not stated leaves a figure None and is named.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import msgspec

from capienza.card.model import Calendar
from capienza.catalog.offer import Fee, Offer, Price
from capienza.errors import Message, template
from capienza.units import Money

SECONDS = Decimal(3600)
SMALLEST = Decimal("0.0001")

PRICE_UNKNOWN = template(
    "decide.price-unknown",
    "the document does not state a price",
    "ask the seller for the total with currency, lots, cards and days",
)
NODES_UNKNOWN = template(
    "decide.nodes-unknown",
    "the price is per node and hour, and the number of nodes is not stated",
    "ask the seller how many nodes the offer has",
)
HOURS_UNKNOWN = template(
    "decide.hours-unknown",
    "the price is by the hour and the card states no steps with hours",
    "write calendar.steps with hours and their basis",
)
STEP_UNKNOWN = template(
    "decide.billing-step-unknown",
    "the billing step is not stated; hours are rounded up to whole hours here",
    "ask the seller for the billing step and the minimum time",
)
TAX_UNKNOWN = template(
    "decide.tax-unknown",
    "tax is not included and its rate is not stated",
    "ask the seller for the total with tax",
)
TAX_UNSTATED = template(
    "decide.tax-unstated",
    "the document does not say whether tax is included; the amount is compared as written",
    "ask the seller whether tax is included",
)
FEE_UNKNOWN = template(
    "decide.fee-unknown",
    "the fee {fee} depends on a quantity that is not stated",
    "ask the seller for its amount on this job, or state the quantity in the card",
)
FEE_CURRENCY = template(
    "decide.fee-currency",
    "the fee {fee} is in {currency}, the price in another currency",
    "ask the seller for a total in one currency",
)


class Hours(msgspec.Struct, frozen=True, kw_only=True):
    """Hours of work: `documented` are measured or documented, `planned` all that the card writes."""

    documented: Decimal = Decimal(0)
    planned: Decimal = Decimal(0)
    is_stated: bool = False

    @property
    def is_documented(self) -> bool:
        """Is every planned hour measured or documented?"""
        return self.is_stated and self.documented == self.planned


class CostPart(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the bill: `name` is "price", "fee.KIND" or "tax", `formula` has its numbers filled in."""

    name: str
    minimum: Money | None
    planned: Money | None
    formula: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What is paid. `minimum` is a lower bound, `planned` the figure for the plan; None when not known.

    `is_exact`: nothing that the planned figure needs is missing or hypothetical. `missing` names what is,
    `notes` what was understood.
    """

    minimum: Money | None = None
    planned: Money | None = None
    is_exact: bool = False
    missing: tuple[Message, ...] = ()
    notes: tuple[Message, ...] = ()
    components: tuple[CostPart, ...] = ()

    @property
    def currency(self) -> str | None:
        """The currency of the offer, when a price is stated."""
        return self.minimum.currency if self.minimum else None


def hours_of(calendar: Calendar | str | None) -> Hours:
    """The hours of the card's plan."""
    if not isinstance(calendar, Calendar) or not calendar.steps:
        return Hours()
    return Hours(
        documented=sum((step.hours for step in calendar.steps if step.basis != "hypothetical"), Decimal(0)),
        planned=sum((step.hours for step in calendar.steps), Decimal(0)),
        is_stated=True,
    )


def cost_of(offer: Offer, hours: Hours, storage_bytes: int | None = None) -> Cost:
    """Cost of the offer for these hours. `storage_bytes` is what the card needs, for fees by stored volume."""
    price = offer.price
    if price.money is None:
        return Cost(missing=(PRICE_UNKNOWN(),))
    missing: list[Message] = []
    notes: list[Message] = []
    units = _units(offer)
    if units is None:
        missing.append(NODES_UNKNOWN())
    by_hour = price.kind != "total"
    least_hours = plan_hours = Decimal(0)
    if by_hour or offer.fees:
        least_hours = _paid_hours(price, hours.documented, whole_hours=False)
        plan_hours = _paid_hours(price, hours.planned, whole_hours=True)
    rate = price.money.amount * (units or 1)
    least = rate * least_hours if by_hour else rate
    plan = rate * plan_hours if by_hour else rate
    if by_hour:
        if not hours.is_stated:
            missing.append(HOURS_UNKNOWN())
        elif price.billing_step_s is None and plan_hours != least_hours:
            notes.append(STEP_UNKNOWN())
    price_least, price_plan = least, plan
    for fee in offer.fees:
        if fee.money.currency != price.money.currency and fee.unit != "percent":
            missing.append(FEE_CURRENCY(fee=fee.kind, currency=fee.money.currency))
            continue
        low, high = _fee(fee, price_least, price_plan, least_hours, plan_hours, storage_bytes)
        if high is None or (fee.unit == "per_hour" and not hours.is_stated):
            missing.append(FEE_UNKNOWN(fee=fee.kind))
        least, plan = least + low, plan + (high or 0)
    if price.tax_percent is not None and not price.tax_included:
        factor = 1 + price.tax_percent / 100
        least, plan = least * factor, plan * factor
    elif price.tax_included is False:
        missing.append(TAX_UNKNOWN())
    elif price.tax_included is None:
        notes.append(TAX_UNSTATED())
    depends_on_hours = by_hour or any(fee.unit in ("per_hour", "per_gb_month") for fee in offer.fees)
    return Cost(
        minimum=Money(rounded(least, ROUND_FLOOR), price.money.currency),
        planned=None if missing else Money(rounded(plan, ROUND_CEILING), price.money.currency),
        is_exact=not missing and (hours.is_documented or not depends_on_hours),
        missing=tuple(missing),
        notes=tuple(notes),
    )


def rounded(amount: Decimal, rounding: str) -> Decimal:
    """At most four decimals: the least downwards, the planned upwards, so that rounding neither excludes nor admits."""
    exponent = amount.as_tuple().exponent
    return amount.quantize(SMALLEST, rounding) if isinstance(exponent, int) and exponent < -4 else amount


def _units(offer: Offer) -> int | None:
    """How many times the unit price is paid; None when the nodes cannot be counted."""
    if offer.price.kind == "per_gpu_hour":
        return offer.gpus
    if offer.price.kind == "per_node_hour":
        if offer.nodes is not None:
            return offer.nodes
        return math.ceil(offer.gpus / offer.gpus_per_node) if offer.gpus_per_node else None
    return 1


def _paid_hours(price: Price, hours: Decimal, *, whole_hours: bool) -> Decimal:
    """Hours on the bill; with no billing step stated, exact or rounded up to whole hours."""
    term = None if price.cancellable else price.term_hours
    paid = max(hours, price.min_hours or Decimal(0), term or Decimal(0))
    step_s = price.billing_step_s or (3600 if whole_hours else None)
    if step_s is None:
        return paid
    return (paid * SECONDS / step_s).to_integral_value(ROUND_CEILING) * step_s / SECONDS


def _fee(
    fee: Fee,
    price_least: Decimal,
    price_plan: Decimal,
    least_hours: Decimal,
    plan_hours: Decimal,
    storage_bytes: int | None,
) -> tuple[Decimal, Decimal | None]:
    """The fee at the least and as planned; None when the quantity it depends on is not stated."""
    amount, included = fee.money.amount, fee.included or Decimal(0)
    if fee.unit == "once":
        return amount, amount
    if fee.unit == "percent":
        return price_least * amount / 100, price_plan * amount / 100
    if fee.unit == "per_hour":
        return amount * max(least_hours - included, Decimal(0)), amount * max(plan_hours - included, Decimal(0))
    if fee.unit == "per_gb_month" and fee.kind == "storage" and storage_bytes is not None and fee.month_hours:
        stored_gb = max(Decimal(storage_bytes) / 10**9 - included, Decimal(0))
        return (
            amount * stored_gb * least_hours / fee.month_hours,
            amount * stored_gb * plan_hours / fee.month_hours,
        )
    return Decimal(0), None
