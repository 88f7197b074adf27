"""What an offer costs for the planned job, line by line.

Legend: h hour; U price of all its GPUs for one hour; T total of a package. Hours paid are the hours of the job, at
least the seller's minimum, and its term unless that can be cancelled, rounded up to the billing step. A package costs
its total whatever is used of it, unless its document says that unused time is refunded.
Fees are added to the price in any order: one in percent is of the price alone, tax is on price and fees together.
`minimum` is what is paid at the least (proved durations only), `planned` what the plan of the card comes to. Each line
is rounded by itself, the least downwards, the planned upwards, so that the lines add up to the total exactly.
No price, rate or volume is presumed: what is not stated leaves a figure None and is named.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext

import msgspec

from capienza.catalog.offer import Offer, Price
from capienza.decide.fees import FeeLine, fee_line
from capienza.decide.used import Job, Used, shown, span, used_hours
from capienza.errors import Message, template
from capienza.units import Money

SMALLEST = Decimal("0.0001")
WIDE = Context(prec=120)
"""Prices have up to 40 digits, and hours, GPUs and volumes multiply them: nothing is rounded but the result."""

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
HOURS_OPEN = template(
    "decide.hours-open",
    "the price is by the hour, and the hours of {steps} are not known",
    "measure them in a pilot, or write hours beside the step: they are hypothetical until then",
)
STEP_UNKNOWN = template(
    "decide.billing-step-unknown",
    "the billing step is not stated; hours are rounded up to whole hours here",
    "ask the seller for the billing step and the minimum time",
)
IDLE_PAID = template(
    "decide.idle-hours-paid",
    "no document says that hours between two days of work are free: {elapsed} hours are paid as planned, for {work}",
    "ask the seller what is paid while the GPUs are stopped",
)
BEYOND_TERM = template(
    "decide.cost-beyond-term",
    "the plan takes up to {planned} hours, the price is for {term}: what more time costs is not stated",
    "ask the seller for the price after that, or for the total of as many packages as the plan takes",
)
MORE_GPUS = template(
    "decide.cost-more-gpus",
    "the job takes {needed} GPUs, the price is for {offered}: what more of them cost is not stated",
    "ask the seller for the total of as many as the job takes",
)
REFUND_OPEN = template(
    "decide.refund-open",
    "unused time is refunded, and the document does not say how; the planned figure counts none of it",
    "ask the seller what is given back for unused hours",
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
TAX_ADDED = template(
    "decide.tax-added",
    "the document states tax of {percent} % and not whether it is included; the planned figure adds it",
    "ask the seller whether tax is included",
)


class CostPart(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the bill: `name` is "price", "fee.KIND" or "tax", `formula` has its numbers filled in.

    None: not known. In a formula, "a .. b" is the least and the planned number, "?" one that is not stated.
    """

    name: str
    minimum: Money | None
    planned: Money | None
    formula: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What is paid. `minimum` is a lower bound, `planned` the figure for the plan; None when not known.

    `is_exact`: nothing that the planned figure needs is missing or hypothetical. `missing` names what is,
    `notes` what was understood. `components` are the lines, which add up to both figures.
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


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """A cost in the currency of the cap: the least and the planned (None: not known), by the rates of `records`."""

    minimum: Money
    planned: Money | None
    records: tuple[str, ...]


class _Bill:
    """The lines of a bill as they are written, with their running sums."""

    __slots__ = ("currency", "least", "parts", "planned")

    def __init__(self, currency: str) -> None:
        self.currency = currency
        self.parts: list[CostPart] = []
        self.least = Decimal(0)
        self.planned: Decimal | None = Decimal(0)

    def add(self, name: str, least: Decimal | None, planned: Decimal | None, formula: str) -> None:
        minimum = None if least is None else Money(rounded(least, ROUND_FLOOR), self.currency)
        if planned is None:
            most = self.planned = None
        elif planned is least and minimum is not None and minimum.amount is least:
            most = minimum
        else:
            most = Money(rounded(planned, ROUND_CEILING), self.currency)
        self.parts.append(CostPart(name=name, minimum=minimum, planned=most, formula=formula))
        if minimum is not None:
            self.least += minimum.amount
        if most is not None and self.planned is not None:
            self.planned += most.amount


def cost_of(offer: Offer, job: Job) -> Cost:
    """The bill of the offer for this job."""
    money = offer.price.money
    if money is None:
        return Cost(missing=(PRICE_UNKNOWN(),))
    with localcontext(WIDE):
        return _cost(offer, money, job)


def _cost(offer: Offer, money: Money, job: Job) -> Cost:
    price, bill = offer.price, _Bill(money.currency)
    missing: list[Message] = []
    notes: list[Message] = []
    used = used_hours(price, job.hours)
    price_line = _package if price.kind == "total" else _by_hour
    price_line(offer, money, job, used, bill, missing, notes)
    base = bill.parts[0]
    for fee in offer.fees:
        line = fee_line(fee, base.minimum, base.planned, used, job)
        _add_fee(bill, line, missing, notes)
    _tax(price, bill, missing, notes)
    depends_on_hours = price.kind != "total" or any(fee.unit in ("per_hour", "per_gb_month") for fee in offer.fees)
    return Cost(
        minimum=Money(bill.least, money.currency),
        planned=None if missing or bill.planned is None else Money(bill.planned, money.currency),
        is_exact=not missing and (job.hours.is_documented or not depends_on_hours),
        missing=tuple(missing),
        notes=tuple(notes),
        components=tuple(bill.parts),
    )


def rounded(amount: Decimal, rounding: str) -> Decimal:
    """At most four decimals: the least downwards, the planned upwards, so that rounding neither excludes nor admits."""
    exponent = amount.as_tuple().exponent
    return amount.quantize(SMALLEST, rounding, WIDE) if isinstance(exponent, int) and exponent < -4 else amount


def _package(
    offer: Offer, money: Money, job: Job, used: Used, bill: _Bill, missing: list[Message], notes: list[Message]
) -> None:
    """T, whatever is used of it; a job that takes more than the package has a price only the seller can state."""
    price, total = offer.price, money.amount
    least, planned = total, total if _is_for_all(offer, job, used, missing) else None
    if price.unused_refunded and price.term_hours and used.least < price.term_hours:
        least = total * used.least / price.term_hours
        notes.append(REFUND_OPEN())
    term = "" if price.term_hours is None else f" x {shown(price.term_hours)} h"
    formula = f"{total:f} {money.currency} ({offer.lots} x {offer.cards} GPU{term})"
    if least is not total and price.term_hours:
        formula += f" x {shown(used.least)} / {shown(price.term_hours)} .. 1"
    bill.add("price", least, planned, formula)


def _by_hour(
    offer: Offer, money: Money, job: Job, used: Used, bill: _Bill, missing: list[Message], notes: list[Message]
) -> None:
    """U x units x hours."""
    units, name = _units(offer)
    if units is None:
        missing.append(NODES_UNKNOWN())
    is_for_all = _is_for_all(offer, job, used, missing)
    if not job.hours.is_stated:
        missing.append(HOURS_OPEN(steps=list(job.open_steps)) if job.open_steps else HOURS_UNKNOWN())
    elif offer.price.billing_step_s is None and used.paid != used.paid_least:
        notes.append(STEP_UNKNOWN())
    if used.elapsed != used.planned:
        notes.append(IDLE_PAID(elapsed=shown(used.elapsed), work=shown(used.planned)))
    rate = money.amount * (units or 1)
    is_known = units is not None and is_for_all and job.hours.is_stated
    times = f" x {'?' if units is None else units} {name}" if name else ""
    hours = span(used.paid_least, used.paid if job.hours.is_stated else None)
    # Of hours that are not known in full nothing is rounded up.
    why = "" if not job.hours.is_stated or used.paid == job.hours.planned or not used.why else f" ({used.why})"
    bill.add(
        "price",
        rate * used.paid_least,
        rate * used.paid if is_known else None,
        f"{money.amount:f} {money.currency}/h{times} x {hours} h{why}",
    )


def _is_for_all(offer: Offer, job: Job, used: Used, missing: list[Message]) -> bool:
    """Is the price stated for as long and for as many GPUs as the job takes? Adds what is not to `missing`."""
    known = len(missing)
    if job.gpus > offer.gpus:
        missing.append(MORE_GPUS(needed=job.gpus, offered=offer.gpus))
    if used.limit is not None and used.elapsed > used.limit:
        missing.append(BEYOND_TERM(planned=shown(used.elapsed), term=shown(used.limit)))
    return len(missing) == known


def _units(offer: Offer) -> tuple[int | None, str]:
    """How many times the unit price is paid (None when the nodes cannot be counted), and of what."""
    if offer.price.kind == "per_gpu_hour":
        return offer.gpus, "GPU"
    if offer.price.kind == "per_node_hour":
        if offer.nodes is not None:
            return offer.nodes, "node"
        return (math.ceil(offer.gpus / offer.gpus_per_node) if offer.gpus_per_node else None), "node"
    return 1, ""


def _add_fee(bill: _Bill, line: FeeLine, missing: list[Message], notes: list[Message]) -> None:
    bill.add(line.name, line.least, line.planned, line.formula)
    if line.missing is not None:
        missing.append(line.missing)
    if line.note is not None and line.note not in notes:
        notes.append(line.note)


def _tax(price: Price, bill: _Bill, missing: list[Message], notes: list[Message]) -> None:
    """Tax on price and fees together, where it is not included for certain."""
    percent, least, planned = price.tax_percent, bill.least, bill.planned
    if price.tax_included:
        return
    if percent is None:
        if price.tax_included is None:
            notes.append(TAX_UNSTATED())
        else:
            missing.append(TAX_UNKNOWN())
            bill.add("tax", None, None, f"? % x {_base(least, planned)} {bill.currency}")
        return
    is_certain = price.tax_included is False
    if not is_certain:
        notes.append(TAX_ADDED(percent=shown(percent)))
    bill.add(
        "tax",
        least * percent / 100 if is_certain else Decimal(0),
        None if planned is None else planned * percent / 100,
        f"{'' if is_certain else '0 .. '}{shown(percent)} % x {_base(least, planned)} {bill.currency}",
    )


def _base(least: Decimal, planned: Decimal | None) -> str:
    if planned == least:
        return f"{least:f}"
    return f"{least:f} .. {'?' if planned is None else f'{planned:f}'}"
