"""What an offer costs, on hand-worked bills, and in general."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from decide_world import codes, make_offer
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.catalog.offer import Fee, Price
from capienza.decide.cost import cost_of
from capienza.decide.used import Job
from capienza.plan.hours import Hours
from capienza.units import Money


def usd(amount) -> Money:
    return Money(Decimal(amount), "USD")


def hours(planned="30", documented=None) -> Hours:
    least = Decimal(planned if documented is None else documented)
    return Hours(least=least, planned=Decimal(planned), is_stated=True, is_documented=documented in (None, planned))


def bill(price, *, need=None, fees=(), storage=None, **offer):
    base = {"tax_included": True}
    job = Job(hours=need or hours(), storage_bytes=storage)
    return cost_of(make_offer(price=Price(**(base | price)), fees=fees, **offer), job)


PACKAGE = {"kind": "total", "money": usd("47.14"), "term_hours": Decimal(72)}
HOUR = {"kind": "per_gpu_hour", "money": usd("2"), "billing_step_s": 60}
STORAGE = Fee(kind="storage", money=usd("0.1"), unit="per_gb_month", month_hours=Decimal(720), included=Decimal(20))

# price, what else, least, planned, exact
BILLS = [
    (PACKAGE, {}, "47.14", "47.14", True),
    (PACKAGE, {"lots": 3, "cards": 2}, "47.14", "47.14", True),
    (PACKAGE, {"need": hours("30", "0")}, "47.14", "47.14", True),
    (PACKAGE, {"need": Hours()}, "47.14", "47.14", True),
    (HOUR, {}, "60", "60", True),
    (HOUR, {"lots": 2, "cards": 4}, "480", "480", True),
    (HOUR, {"need": hours("30", "10")}, "20", "60", False),
    (HOUR, {"need": hours("30", "0")}, "0", "60", False),
    (HOUR, {"need": Hours()}, "0", None, False),
    (HOUR | {"term_hours": Decimal(72)}, {}, "144", "144", True),
    (HOUR | {"term_hours": Decimal(72), "cancellable": False}, {}, "144", "144", True),
    (HOUR | {"term_hours": Decimal(72), "cancellable": True}, {}, "60", "60", True),
    (HOUR | {"term_hours": Decimal(72), "cancellable": True, "min_hours": Decimal(40)}, {}, "80", "80", True),
    (PACKAGE | {"cancellable": True}, {}, "47.14", "47.14", True),
    (HOUR | {"kind": "per_offer_hour"}, {"cards": 8}, "60", "60", True),
    (HOUR | {"kind": "per_node_hour"}, {"cards": 8, "gpus_per_node": 4}, "120", "120", True),
    (HOUR | {"kind": "per_node_hour"}, {"cards": 9, "gpus_per_node": 4}, "180", "180", True),
    (HOUR | {"kind": "per_node_hour"}, {"cards": 8, "gpus_per_node": None, "nodes": 3}, "180", "180", True),
    (HOUR | {"kind": "per_node_hour"}, {"cards": 8, "gpus_per_node": None}, "60", None, False),
    (HOUR | {"min_hours": Decimal(48)}, {}, "96", "96", True),
    (HOUR | {"term_hours": Decimal(720)}, {}, "1440", "1440", True),
    (HOUR | {"billing_step_s": 3600}, {"need": hours("30.1")}, "62", "62", True),
    (HOUR | {"billing_step_s": 60}, {"need": hours("0.001")}, "0.0333", "0.0334", True),
    (HOUR | {"billing_step_s": None}, {"need": hours("30.1")}, "60.2", "62", True),
    (PACKAGE | {"tax_included": False, "tax_percent": Decimal(22)}, {}, "57.5108", "57.5108", True),
    (PACKAGE | {"tax_included": None, "tax_percent": Decimal(22)}, {}, "47.14", "57.5108", True),
    (PACKAGE | {"tax_included": True, "tax_percent": Decimal(22)}, {}, "47.14", "47.14", True),
    (PACKAGE | {"tax_included": False}, {}, "47.14", None, False),
    (PACKAGE, {"fees": (Fee(kind="setup", money=usd("5"), unit="once"),)}, "52.14", "52.14", True),
    (PACKAGE, {"fees": (Fee(kind="support", money=usd("10"), unit="percent"),)}, "51.854", "51.854", True),
    (PACKAGE, {"fees": (Fee(kind="ip", money=usd("0.5"), unit="per_hour"),)}, "62.14", "83.14", True),
    (HOUR, {"fees": (Fee(kind="ip", money=usd("1"), unit="per_hour", included=Decimal(10)),)}, "80", "80", True),
    (HOUR, {"fees": (STORAGE,), "storage": 200 * 10**9}, "60.75", "60.75", True),
    (HOUR, {"fees": (STORAGE,), "storage": 10 * 10**9}, "60", "60", True),
    (HOUR, {"fees": (STORAGE,)}, "60", None, False),
    (HOUR, {"fees": (Fee(kind="egress", money=usd("0.1"), unit="per_gb"),)}, "60", None, False),
    (HOUR, {"fees": (Fee(kind="setup", money=Money(Decimal(5), "EUR"), unit="once"),)}, "60", None, False),
]


@pytest.mark.parametrize("price, more, least, planned, exact", BILLS)
def test_hand_worked_bills(price, more, least, planned, exact):
    cost = bill(price, **more)
    assert cost.minimum == usd(least)
    assert cost.is_exact is exact
    if planned is not None:
        assert cost.planned == usd(planned)
    else:
        assert cost.planned is None
        assert cost.missing


@given(st.integers(0, 30), st.integers(1, 60))
def test_how_long_an_hourly_offer_can_be_used_changes_no_bill(first, days):
    starts = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=first)
    window = {"starts_at": starts, "ends_at": starts + datetime.timedelta(days=days)}
    assert bill(HOUR | window) == bill(HOUR)


fees = st.builds(
    Fee,
    kind=st.sampled_from(["storage", "ip", "egress"]),
    money=st.sampled_from([usd("50"), usd("10"), usd("0.1"), Money(Decimal(5), "EUR")]),
    unit=st.sampled_from(["once", "per_hour", "percent", "per_gb", "per_gb_month"]),
    month_hours=st.just(Decimal(720)),
)


@pytest.mark.parametrize("price, total", [(HOUR, "116"), (PACKAGE, "101.854")])
def test_a_percentage_is_of_the_price_alone(price, total):
    some = (Fee(kind="setup", money=usd("50"), unit="once"), Fee(kind="support", money=usd("10"), unit="percent"))
    assert bill(price, fees=some).planned == bill(price, fees=some[::-1]).planned == usd(total)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([HOUR, PACKAGE, HOUR | {"tax_percent": Decimal(22)}]), st.permutations([0, 1, 2, 3]), st.data())
def test_the_order_of_the_fees_changes_nothing(price, order, data):
    some = data.draw(st.lists(fees, min_size=4, max_size=4))
    one = bill(price, fees=tuple(some), storage=10**12)
    other = bill(price, fees=tuple(some[index] for index in order), storage=10**12)
    assert (one.minimum, one.planned, one.is_exact) == (other.minimum, other.planned, other.is_exact)
    assert sorted(codes(one.missing)) == sorted(codes(other.missing))


def test_a_rate_that_may_be_included_already_raises_the_planned_figure_alone():
    assert codes(bill(PACKAGE | {"tax_included": None, "tax_percent": Decimal(22)}).notes) == ["decide.tax-added"]
    assert not bill(PACKAGE | {"tax_included": False, "tax_percent": Decimal(22)}).notes


def test_what_is_missing_is_named():
    egress = (Fee(kind="egress", money=usd("0.1"), unit="per_gb"),)
    assert codes(bill({"kind": "total"}).missing) == ["decide.price-unknown"]
    assert codes(bill(HOUR, need=Hours()).missing) == ["decide.hours-unknown"]
    assert codes(bill(HOUR, fees=egress).missing) == ["decide.fee-volume-unknown"]
    assert codes(bill(HOUR | {"tax_included": None}).notes) == ["decide.tax-unstated"]
    assert codes(bill(HOUR | {"billing_step_s": None}, need=hours("1.5")).notes) == ["decide.billing-step-unknown"]


amounts = st.integers(1, 10_000).map(lambda cents: Decimal(cents) / 100)
prices = st.builds(
    dict,
    kind=st.sampled_from(["per_gpu_hour", "per_node_hour", "per_offer_hour", "total"]),
    money=amounts.map(usd),
    min_hours=st.none() | amounts,
    term_hours=st.none() | amounts,
    billing_step_s=st.none() | st.sampled_from([1, 60, 900, 3600]),
    tax_included=st.sampled_from([True, False, None]),
    tax_percent=st.none() | st.integers(0, 30).map(Decimal),
)
simple_fees = st.builds(
    Fee,
    kind=st.sampled_from(["storage", "ip"]),
    money=amounts.map(usd),
    unit=st.sampled_from(["once", "per_hour", "percent"]),
)


@settings(max_examples=300, deadline=None)
@given(prices, st.lists(simple_fees, max_size=2).map(tuple), amounts, amounts, amounts)
def test_more_hours_never_cost_less_and_the_least_is_the_least(price, some, first, second, third):
    least, planned, more = sorted((first, second, third))
    less = bill(price, need=Hours(least=least, planned=planned, is_stated=True), fees=some)
    longer = bill(price, need=Hours(least=planned, planned=more, is_stated=True), fees=some)
    assert less.minimum.amount <= longer.minimum.amount
    if less.planned is not None:
        assert less.minimum.amount <= less.planned.amount
    if longer.planned is not None:
        assert less.planned.amount <= longer.planned.amount
    without = bill(price, need=Hours(least=least, planned=planned, is_stated=True))
    assert without.minimum.amount <= less.minimum.amount
