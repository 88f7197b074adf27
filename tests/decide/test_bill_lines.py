"""Bills line by line: hand-worked ones for every trap, and what holds of all of them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from decide_world import change, codes, make_offer
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.catalog.offer import Fee, Price
from capienza.decide.cost import cost_of
from capienza.decide.used import Job
from capienza.plan.hours import Hours
from capienza.units import Money

GB = 10**9


def usd(amount) -> Money:
    return Money(Decimal(amount), "USD")


def hours(least, planned=None, daily=None) -> Hours:
    planned = least if planned is None else planned
    return Hours(
        least=Decimal(least),
        planned=Decimal(planned),
        is_stated=True,
        is_documented=True,
        daily=daily and Decimal(daily),
    )


def fee(kind, amount, unit, **more) -> Fee:
    return Fee(kind=kind, money=usd(amount), unit=unit, **{name: Decimal(value) for name, value in more.items()})


def package(total="47.14", days=3, **more) -> Price:
    return Price(
        **({"kind": "total", "money": usd(total), "term_hours": Decimal(24 * days), "tax_included": True} | more)
    )


def hourly(amount="2", **more) -> Price:
    base = {"kind": "per_gpu_hour", "money": usd(amount), "billing_step_s": 60, "tax_included": True}
    return Price(**(base | more))


def bill(price, *fees, job=None, need="30", gpus=1, storage=None, egress=None, **offer):
    need = need if isinstance(need, Hours) else hours(need)
    job = job or Job(hours=need, gpus=gpus, storage_bytes=storage, egress_bytes=egress)
    return cost_of(make_offer(price=price, fees=fees, **offer), job)


def shown(cost):
    """Each line: name, least and planned amount, formula."""

    def amount(money):
        return None if money is None else f"{money.amount.normalize():f}"

    return [(part.name, amount(part.minimum), amount(part.planned), part.formula) for part in cost.components]


P = ("price", "47.14", "47.14", "47.14 USD (1 x 1 GPU x 72 h)")
H = ("price", "60", "60", "2 USD/h x 1 GPU x 30 h")
STORED = {"included": "20", "month_hours": "720"}
STORAGE = fee("storage", "0.1", "per_gb_month", **STORED)
EGRESS = fee("egress", "0.09", "per_gb", included="10")

BILLS = {
    "a package costs its total whatever is used": (bill(package(), need="1"), [P], []),
    "lots x cards x days": (
        bill(package("282.84"), lots=3, cards=2, gpus=6),
        [("price", "282.84", "282.84", "282.84 USD (3 x 2 GPU x 72 h)")],
        [],
    ),
    "more cards than the job takes are paid all the same": (
        bill(package(), cards=8),
        [("price", "47.14", "47.14", "47.14 USD (1 x 8 GPU x 72 h)")],
        [],
    ),
    "a job of more cards than the package has no price": (
        bill(package(), gpus=2),
        [("price", "47.14", None, P[3])],
        ["decide.cost-more-gpus"],
    ),
    "a job longer than the package has no price": (
        bill(package(), need=hours("30", "72.5")),
        [("price", "47.14", None, P[3])],
        ["decide.cost-beyond-term"],
    ),
    "nor one longer than what can be used of it": (
        bill(package(usable_hours=Decimal(70)), need="71"),
        [("price", "47.14", None, P[3])],
        ["decide.cost-beyond-term"],
    ),
    "nor one that daily hours draw out beyond it": (
        bill(package(), need=hours("30", daily="8")),
        [("price", "47.14", None, P[3])],
        ["decide.cost-beyond-term"],
    ),
    "what is refunded lowers the least alone": (
        bill(package("72", unused_refunded=True)),
        [("price", "30", "72", "72 USD (1 x 1 GPU x 72 h) x 30 / 72 .. 1")],
        ["decide.refund-open"],
    ),
    "what is not refunded lowers nothing": (bill(package(unused_refunded=False)), [P], []),
    "per GPU and hour": (
        bill(hourly(), lots=2, cards=4),
        [("price", "480", "480", "2 USD/h x 8 GPU x 30 h")],
        [],
    ),
    "per node and hour": (
        bill(hourly(kind="per_node_hour"), cards=8, gpus_per_node=4, nodes=2),
        [("price", "120", "120", "2 USD/h x 2 node x 30 h")],
        [],
    ),
    "nodes that nobody counts": (
        bill(hourly(kind="per_node_hour"), cards=8, gpus_per_node=None),
        [("price", "60", None, "2 USD/h x ? node x 30 h")],
        ["decide.nodes-unknown"],
    ),
    "per offer and hour": (
        bill(hourly(kind="per_offer_hour"), cards=8),
        [("price", "60", "60", "2 USD/h x 30 h")],
        [],
    ),
    "a billing step": (
        bill(hourly(billing_step_s=3600), need="30.1"),
        [("price", "62", "62", "2 USD/h x 1 GPU x 31 h (ceil(30.1))")],
        [],
    ),
    "no billing step": (
        bill(hourly(billing_step_s=None), need="30.1"),
        [("price", "60.2", "62", "2 USD/h x 1 GPU x 30.1 .. 31 h (ceil(30.1))")],
        ["decide.billing-step-unknown"],
    ),
    "a minimum time": (
        bill(hourly(min_hours=Decimal(48))),
        [("price", "96", "96", "2 USD/h x 1 GPU x 48 h (ceil(max(30, 48) h / 60 s))")],
        [],
    ),
    "a term that cannot be cancelled": (
        bill(hourly(term_hours=Decimal(720), cancellable=False)),
        [("price", "1440", "1440", "2 USD/h x 1 GPU x 720 h (ceil(max(30, 720) h / 60 s))")],
        [],
    ),
    "a term that can": (bill(hourly(term_hours=Decimal(720), cancellable=True)), [H], []),
    "an hour that can be had no longer": (
        bill(hourly(max_hours=Decimal(24))),
        [("price", "48", None, "2 USD/h x 1 GPU x 24 .. 30 h")],
        ["decide.cost-beyond-term"],
    ),
    "the spread of a pilot": (
        bill(hourly(), need=hours("20", "30")),
        [("price", "40", "60", "2 USD/h x 1 GPU x 20 .. 30 h")],
        [],
    ),
    "hours between two days of work are paid as planned": (
        bill(hourly(), need=hours("30", daily="8")),
        [("price", "60", "188", "2 USD/h x 1 GPU x 30 .. 94 h")],
        ["decide.idle-hours-paid"],
    ),
    "hours that no card states": (
        bill(hourly(), need=Hours()),
        [("price", "0", None, "2 USD/h x 1 GPU x 0 .. ? h")],
        ["decide.hours-unknown"],
    ),
    "set-up": (bill(package(), fee("setup", "5", "once")), [P, ("fee.setup", "5", "5", "5 USD")], []),
    "a percentage is of the price alone": (
        bill(package(), fee("setup", "50", "once"), fee("support", "10", "percent")),
        [P, ("fee.setup", "50", "50", "50 USD"), ("fee.support", "4.714", "4.714", "10 % x 47.14 USD")],
        [],
    ),
    "storage by month, less what is included": (
        bill(hourly(), STORAGE, storage=200 * GB),
        [H, ("fee.storage", "0.75", "0.75", "0.1 USD/GB x 180 GB x 30 h / 720 h")],
        [],
    ),
    "storage below what is included": (
        bill(hourly(), STORAGE, storage=10 * GB),
        [H, ("fee.storage", "0", "0", "0.1 USD/GB x 0 GB")],
        [],
    ),
    "storage in a month of 730 hours, rounded for the two figures": (
        bill(hourly(), fee("storage", "0.1", "per_gb_month", month_hours="730"), storage=100 * GB),
        [H, ("fee.storage", "0.4109", "0.411", "0.1 USD/GB x 100 GB x 30 h / 730 h")],
        [],
    ),
    "a month of unknown length is not presumed": (
        bill(hourly(), fee("storage", "0.1", "per_gb_month"), storage=200 * GB),
        [H, ("fee.storage", "0", None, "0.1 USD/GB x 200 GB x ? month")],
        ["decide.fee-month-unknown"],
    ),
    "storage that the card does not state": (
        bill(hourly(), STORAGE),
        [H, ("fee.storage", "0", None, "0.1 USD/GB x ? GB")],
        ["decide.fee-volume-unknown"],
    ),
    "storage for the term of a package, unless it is free while stopped": (
        bill(package(), STORAGE, storage=200 * GB),
        [P, ("fee.storage", "0.75", "1.8", "0.1 USD/GB x 180 GB x 30 .. 72 h / 720 h")],
        ["decide.fee-while-stopped"],
    ),
    "storage that is charged while stopped": (
        bill(hourly(), change(STORAGE, billed_when_stopped=True), need=hours("16", daily="8"), storage=200 * GB),
        [
            ("price", "32", "96", "2 USD/h x 1 GPU x 16 .. 48 h"),
            ("fee.storage", "0.8", "1.2", "0.1 USD/GB x 180 GB x 32 .. 48 h / 720 h"),
        ],
        ["decide.idle-hours-paid"],
    ),
    "storage that is not": (
        bill(package(), change(STORAGE, billed_when_stopped=False), storage=200 * GB),
        [P, ("fee.storage", "0.75", "0.75", "0.1 USD/GB x 180 GB x 30 h / 720 h")],
        [],
    ),
    "egress": (
        bill(hourly(), EGRESS, egress=50 * GB),
        [H, ("fee.egress", "3.6", "3.6", "0.09 USD/GB x 40 GB")],
        [],
    ),
    "egress of a card that says none": (
        bill(hourly(), EGRESS, egress=0),
        [H, ("fee.egress", "0", "0", "0.09 USD/GB x 0 GB")],
        [],
    ),
    "egress that the card does not state": (
        bill(hourly(), EGRESS),
        [H, ("fee.egress", "0", None, "0.09 USD/GB x ? GB")],
        ["decide.fee-volume-unknown"],
    ),
    "incoming traffic, which no card states": (
        bill(hourly(), fee("ingress", "0.01", "per_gb")),
        [H, ("fee.ingress", "0", None, "0.01 USD/GB x ? GB")],
        ["decide.fee-unknown"],
    ),
    "an hourly fee, less what is included": (
        bill(hourly(), fee("ip", "0.5", "per_hour", included="10")),
        [H, ("fee.ip", "10", "10", "0.5 USD/h x 20 h")],
        [],
    ),
    "a fee in another currency adds up with nothing": (
        bill(hourly(), Fee(kind="setup", money=Money(Decimal(5), "EUR"), unit="once")),
        [H, ("fee.setup", None, None, "5 EUR")],
        ["decide.fee-currency"],
    ),
    "tax on price and fees": (
        bill(package(tax_included=False, tax_percent=Decimal(22)), fee("setup", "5", "once")),
        [P, ("fee.setup", "5", "5", "5 USD"), ("tax", "11.4708", "11.4708", "22 % x 52.14 USD")],
        [],
    ),
    "tax of a rate that is not stated": (
        bill(package(tax_included=False)),
        [P, ("tax", None, None, "? % x 47.14 USD")],
        ["decide.tax-unknown"],
    ),
    "tax that may be included": (
        bill(package(tax_included=None, tax_percent=Decimal(22))),
        [P, ("tax", "0", "10.3708", "0 .. 22 % x 47.14 USD")],
        ["decide.tax-added"],
    ),
    "tax that nobody speaks of": (bill(package(tax_included=None)), [P], ["decide.tax-unstated"]),
    "tax on a bill with an open line": (
        bill(hourly(tax_included=False, tax_percent=Decimal(10)), EGRESS),
        [H, ("fee.egress", "0", None, "0.09 USD/GB x ? GB"), ("tax", "6", None, "10 % x 60 .. ? USD")],
        ["decide.fee-volume-unknown"],
    ),
}


@pytest.mark.parametrize("name", BILLS)
def test_worked_bills(name):
    cost, lines, said = BILLS[name]
    assert shown(cost) == lines
    assert codes((*cost.missing, *cost.notes)) == said
    assert (cost.planned is None) == bool(cost.missing)


amounts = st.integers(0, 10_000_000).map(lambda number: Decimal(number) / 1000)
positive = amounts.map(lambda amount: amount + Decimal("0.001"))
tri = st.sampled_from([True, False, None])
prices = st.builds(
    lambda kind, amount, term, **more: Price(
        kind=kind, money=usd(amount), term_hours=term if kind != "total" else term or Decimal(72), **more
    ),
    st.sampled_from(["per_gpu_hour", "per_node_hour", "per_offer_hour", "total"]),
    positive,
    st.none() | positive,
    usable_hours=st.none() | positive,
    min_hours=st.none() | positive,
    max_hours=st.none() | positive,
    billing_step_s=st.none() | st.sampled_from([1, 7, 60, 3600]),
    tax_included=tri,
    tax_percent=st.none() | st.integers(0, 100).map(Decimal),
    cancellable=tri,
    unused_refunded=tri,
)
fees = st.builds(
    Fee,
    kind=st.sampled_from(["setup", "storage", "egress", "ingress", "ip", "support", "other"]),
    money=st.builds(Money, amounts, st.sampled_from(["USD", "USD", "USD", "EUR"])),
    unit=st.sampled_from(["once", "per_hour", "per_gb", "per_gb_month", "percent"]),
    included=st.none() | amounts,
    month_hours=st.sampled_from([None, Decimal(720), Decimal(730), Decimal(744)]),
    billed_when_stopped=tri,
)
all_hours = st.builds(
    lambda least, more, documented, daily: Hours(
        least=least, planned=least + more, is_stated=True, is_documented=documented, daily=daily
    ),
    amounts,
    amounts,
    st.booleans(),
    st.none() | st.integers(1, 24).map(Decimal),
) | st.just(Hours())
volumes = st.none() | st.integers(0, 10**15)
jobs = st.builds(Job, hours=all_hours, storage_bytes=volumes, egress_bytes=volumes, gpus=st.integers(1, 3))
MANY = settings(max_examples=500, deadline=None)


def least(cost) -> Decimal:
    return cost.minimum.amount


@MANY
@given(prices, st.lists(fees, max_size=4), jobs)
def test_the_lines_add_up_to_the_total_exactly(price, some, job):
    cost = bill(price, *some, job=job)
    known = [part.minimum.amount for part in cost.components if part.minimum is not None]
    assert sum(map(Fraction, known)) == Fraction(least(cost))
    assert least(cost) >= 0
    if cost.planned is not None:
        planned = [part.planned.amount for part in cost.components]
        assert sum(map(Fraction, planned)) == Fraction(cost.planned.amount)
        assert least(cost) <= cost.planned.amount
    assert (cost.planned is None) == bool(cost.missing)
    assert len(cost.components) in (len(some) + 1, len(some) + 2)
    for part in cost.components:
        assert part.formula
        assert "E" not in part.formula.replace("EUR", "")


@MANY
@given(prices, st.lists(fees, max_size=3), jobs, amounts, amounts)
def test_more_hours_and_volumes_never_cost_less(price, some, job, more, volume):
    larger = change(
        job,
        hours=longer_by(job.hours, more),
        storage_bytes=None if job.storage_bytes is None else job.storage_bytes + int(volume),
        egress_bytes=None if job.egress_bytes is None else job.egress_bytes + int(volume),
    )
    before, after = bill(price, *some, job=job), bill(price, *some, job=larger)
    assert least(before) <= least(after)
    if after.planned is not None:
        assert before.planned.amount <= after.planned.amount


def longer_by(found: Hours, more: Decimal) -> Hours:
    return change(found, least=found.least + more, planned=found.planned + more) if found.is_stated else found


@MANY
@given(prices, st.lists(fees, max_size=3), fees, jobs, amounts)
def test_each_fee_adds_and_a_dearer_one_adds_more(price, some, one, job, more):
    without, with_it = bill(price, *some, job=job), bill(price, *some, one, job=job)
    dearer = bill(price, *some, change(one, money=Money(one.money.amount + more, one.money.currency)), job=job)
    assert least(without) <= least(with_it) <= least(dearer)
    if with_it.planned is not None:
        assert without.planned.amount <= with_it.planned.amount <= dearer.planned.amount
    else:
        assert dearer.planned is None


@MANY
@given(prices, st.lists(fees, max_size=3), jobs, st.integers(0, 50), st.integers(0, 50))
def test_more_tax_never_costs_less(price, some, job, percent, more):
    low, high = (bill(change(price, tax_percent=Decimal(rate)), *some, job=job) for rate in (percent, percent + more))
    assert least(low) <= least(high)
    if high.planned is not None:
        assert low.planned.amount <= high.planned.amount


@MANY
@given(prices, st.lists(fees, min_size=2, max_size=5), jobs, st.randoms())
def test_the_order_of_the_fees_changes_no_total(price, some, job, random):
    one = bill(price, *some, job=job)
    random.shuffle(some)
    other = bill(price, *some, job=job)
    assert (one.minimum, one.planned, one.is_exact) == (other.minimum, other.planned, other.is_exact)
    assert sorted(map(str, one.components)) == sorted(map(str, other.components))


@MANY
@given(prices, st.lists(fees, max_size=3), jobs)
def test_what_is_left_open_never_makes_a_bill_certain(price, some, job):
    """Leaving a statement out of the offer never turns an unknown total into a known one."""
    known = bill(price, *some, job=job)
    for name in ("tax_percent", "billing_step_s"):
        open_price = change(price, **{name: None})
        if open_price.tax_included is False or name != "tax_percent":
            found = bill(open_price, *some, job=job)
            assert found.planned is None or known.planned is not None
            assert least(found) <= least(known)


@pytest.mark.parametrize(
    "price, some, job",
    [
        (
            hourly("9" * 12, min_hours=Decimal(10**12), billing_step_s=1),
            (fee("storage", "9" * 12, "per_gb_month", month_hours="0.001"),),
            Job(hours=hours("99999999.999"), storage_bytes=2**63 - 1),
        ),
        (hourly("0." + "1" * 37), (), Job(hours=hours("0.001"))),
        (package("1." + "0" * 37 + "1", tax_included=False, tax_percent=Decimal("0.000001")), (), Job()),
    ],
)
def test_the_largest_and_the_smallest_numbers_still_add_up(price, some, job):
    cost = bill(price, *some, job=job, cards=10**6)
    for total, parts in (
        (cost.minimum, [part.minimum for part in cost.components]),
        (cost.planned, [part.planned for part in cost.components]),
    ):
        assert sum(Fraction(part.amount) for part in parts) == Fraction(total.amount)
