"""From the full form to an offer: what a sheet states is checked against itself, and nothing is filled in.

Legend: GPUs = lots x cards = nodes x GPUs per node; term = paid hours (24 x days); usable <= term.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

from capienza.catalog.claims import Claims
from capienza.catalog.forms import FullFee, FullHost, FullOffer, FullPrice
from capienza.catalog.moments import parse_moment
from capienza.catalog.notes import Notes
from capienza.catalog.numbers import exact
from capienza.catalog.offer import Document, Fee, GpuClaim, Offer, OfferHost, Price
from capienza.errors import Place, template
from capienza.units import GIB, MAX_MONEY, Money

LOTS = template(
    "catalog.lots-do-not-divide",
    "{total} GPUs cannot be {lots} equal lots",
    "GPUs in all = lots x cards: correct one of them.",
)
NODES = template(
    "catalog.nodes-contradict-gpus",
    "{nodes} nodes of {per_node} GPUs are not {total} GPUs",
    "GPUs in all = nodes x GPUs per node = lots x cards: correct one of them.",
)
NODES_UNEVEN = template(
    "catalog.nodes-uneven",
    "{total} GPUs cannot be divided by {found}",
    "GPUs in all = nodes x GPUs per node = lots x cards: correct one of them.",
)
NO_TERM = template(
    "catalog.term-missing",
    "a total price needs the hours it pays for",
    "Add the days of the package (flat form: days; full form: price.term_hours = 24 x days).",
)
ZERO_PRICE = template(
    "catalog.zero-price",
    "a price of {found} is read as not known: a catalogue's zero is a missing price, not a gift",
    "Ask for the price.",
)
NO_PRICE = template("catalog.price-not-stated", "the price is not stated", "Ask for the price.")
NO_CURRENCY = template(
    "catalog.currency-missing",
    "an amount without a currency",
    "Add the currency, three capital letters such as USD or EUR.",
)
AMOUNT_TOO_LARGE = template(
    "catalog.amount-too-large", "expected at most {maximum}, got {found}", "Check the number of digits."
)
NOT_A_MOMENT = template(
    "catalog.not-a-moment",
    "expected a date-time with an offset such as 2026-11-30T09:00:00Z, got {found}",
    "Add the time and the offset: the same clock time is a different moment elsewhere.",
)
WINDOW_EMPTY = template(
    "catalog.window-empty", "it ends at {end}, which is not after its start {start}", "Correct one of the two."
)
TERM_DIFFERS = template(
    "catalog.term-differs",
    "{term} paid hours contradict the dates, which hold {hours}",
    "24 hours for each day, counting whole days: correct the days or the dates.",
)
USABLE_ABOVE = template(
    "catalog.usable-above-paid", "{low} usable hours are more than {high} paid hours", "Correct one of the two."
)
LEAST_ABOVE = template(
    "catalog.minimum-above-maximum",
    "a minimum of {low} hours is above the maximum of {high}",
    "Correct one of the two.",
)

_DST = 1
"""Hours by which dates and days may differ when the clocks change between them."""


def to_offer(full: FullOffer, notes: Notes, place: Place, claims: Claims) -> Offer:
    """The offer that `full` describes. Usable only when `notes` holds no problem afterwards."""
    claim = _claim(full, notes, claims)
    total, lots = full.gpus_total, full.lots or 1
    if total % lots:
        notes.problem(LOTS(total=total, lots=lots), "lots")
    per_node, nodes = _nodes(full, notes)
    price = _price(full.price, notes)
    return Offer(
        id=full.offer_id,
        provider=full.provider,
        gpu=claim,
        lots=lots,
        cards=total // lots,
        gpus_per_node=per_node,
        nodes=nodes,
        gpu_link=full.gpu_link,
        node_link_gbit_s=exact(full.node_link_gbit_s),
        host=_host(full.host) if full.host else NO_HOST,
        price=price,
        fees=tuple(_fee(fee, full.price.currency, notes, i) for i, fee in enumerate(full.fees)) if full.fees else (),
        region=full.region,
        country=full.country,
        stock=full.stock,
        stock_checked_at=_moment(full.stock_checked_at, notes, "stock_checked_at"),
        document=_document(full, notes),
        notes=full.notes,
        place=place,
    )


NO_HOST = OfferHost()


def _claim(full: FullOffer, notes: Notes, claims: Claims) -> GpuClaim:
    claimed = claims.of(full.gpu)
    notes.problems.extend(claimed.notes.problems)
    notes.findings.extend(claimed.notes.findings)
    return claimed.claim


def _nodes(full: FullOffer, notes: Notes) -> tuple[int | None, int | None]:
    """GPUs per node and nodes; one follows from the other, and neither from the lots."""
    total, per_node, nodes = full.gpus_total, full.gpus_per_node, full.nodes
    if per_node and nodes:
        if per_node * nodes != total:
            notes.problem(NODES(nodes=nodes, per_node=per_node, total=total), "nodes")
    elif per_node or nodes:
        stated = per_node or nodes or 1
        if total % stated:
            notes.problem(NODES_UNEVEN(total=total, found=stated), "gpus_per_node" if per_node else "nodes")
        return (per_node, total // stated) if per_node else (total // stated, nodes)
    elif total == 1:
        return 1, 1
    return per_node, nodes


def _price(full: FullPrice, notes: Notes) -> Price:
    starts = _moment(full.starts_at, notes, "price", "starts_at")
    ends = _moment(full.ends_at, notes, "price", "ends_at")
    term, usable = exact(full.term_hours), exact(full.usable_hours)
    if full.kind == "total" and term is None:
        notes.problem(NO_TERM(), "price", "term_hours")
    if starts and ends:
        _dates(starts, ends, term, full.kind == "total", notes)
    if term is not None and usable is not None and usable > term:
        notes.problem(USABLE_ABOVE(low=str(usable), high=str(term)), "price", "usable_hours")
    least, most = exact(full.min_hours), exact(full.max_hours)
    if least is not None and most is not None and least > most:
        notes.problem(LEAST_ABOVE(low=str(least), high=str(most)), "price", "min_hours")
    return Price(
        kind=full.kind,
        money=_money(full, notes),
        term_hours=term,
        usable_hours=usable,
        starts_at=starts,
        ends_at=ends,
        min_hours=least,
        max_hours=most,
        billing_step_s=full.billing_step_s,
        interruptible=full.interruptible,
        tax_included=full.tax_included,
        tax_percent=exact(full.tax_percent),
        cancellable=full.cancellable,
        unused_refunded=full.unused_refunded,
    )


def _dates(
    starts: datetime.datetime, ends: datetime.datetime, term: Decimal | None, is_package: bool, notes: Notes
) -> None:
    """A package is paid from its first date to its last; a term by the hour has to find room between them."""
    hours = Decimal(int((ends - starts).total_seconds())) / 3600
    if hours <= 0:
        notes.problem(WINDOW_EMPTY(start=starts.isoformat(), end=ends.isoformat()), "price", "ends_at")
    elif term is not None and (term - hours > _DST or (is_package and hours - term > _DST)):
        notes.problem(TERM_DIFFERS(term=str(term), hours=f"{hours:.2f}"), "price", "term_hours")


def _money(full: FullPrice, notes: Notes) -> Money | None:
    """The price, None when it is not known: absent, null, or a catalogue's zero."""
    if full.amount is None:
        notes.finding(NO_PRICE(), "price", "amount")
        return None
    if full.currency is None:
        notes.problem(NO_CURRENCY(), "price", "currency")
        return None
    amount = Decimal(full.amount)
    if not amount:
        notes.finding(ZERO_PRICE(found=f"{full.amount} {full.currency}"), "price", "amount")
        return None
    _check_amount(amount, notes, "price", "amount")
    return Money(amount, full.currency)


def _check_amount(amount: Decimal, notes: Notes, *path: str | int) -> None:
    if amount > MAX_MONEY:
        notes.problem(AMOUNT_TOO_LARGE(maximum=MAX_MONEY, found=f"{amount:f}"), *path)


def _fee(full: FullFee, price_currency: str | None, notes: Notes, index: int) -> Fee:
    currency = full.currency or price_currency
    if currency is None:
        notes.problem(NO_CURRENCY(), "fees", index, "currency")
    amount = Decimal(full.amount)
    _check_amount(amount, notes, "fees", index, "amount")
    return Fee(
        kind=full.kind,
        money=Money(amount, currency or ""),
        unit=full.unit,
        included=exact(full.included),
        month_hours=exact(full.month_hours),
        billed_when_stopped=full.billed_when_stopped,
    )


def _host(full: FullHost) -> OfferHost:
    ram, disk = exact(full.ram_gib), exact(full.disk_gb)
    return OfferHost(
        vcpus=exact(full.vcpus),
        ram_bytes=round(ram * GIB) if ram is not None else None,
        disk_bytes=round(disk * 10**9) if disk is not None else None,
        cpu_arch=full.cpu_arch,
        os=full.os,
        driver_version=full.driver_version,
        cuda_max=full.cuda_max,
        rocm=full.rocm,
        managed_application=full.managed_application,
    )


def _document(full: FullOffer, notes: Notes) -> Document | None:
    """The document an offer was read from; without an id of its own it is known by its source, or by the offer."""
    retrieved = _moment(full.retrieved_at, notes, "retrieved_at")
    valid_from = _moment(full.valid_from, notes, "valid_from")
    valid_until = _moment(full.valid_until, notes, "valid_until")
    if valid_from and valid_until and valid_until <= valid_from:
        notes.problem(WINDOW_EMPTY(start=valid_from.isoformat(), end=valid_until.isoformat()), "valid_until")
    stated = full.document
    if stated is None and not (full.source or retrieved or valid_from or valid_until):
        return None
    return Document(
        id=stated.id if stated else full.source or full.offer_id,
        version=stated.version if stated else None,
        retrieved=retrieved,
        retrieved_text=(stated.retrieved if stated else None) or full.retrieved_at,
        valid_from=valid_from,
        valid_until=valid_until,
        source=full.source,
    )


def _moment(text: str | None, notes: Notes, *path: str | int) -> datetime.datetime | None:
    if text is None:
        return None
    moment = parse_moment(text)
    if moment is None:
        notes.problem(NOT_A_MOMENT(found=text), *path)
    return moment
