"""The hours that would settle a plan: what is named settles it, and a little more does not."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from decide_world import at, codes, judge, make_card, make_document, make_offer
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.card.model import Budget, Calendar, Step
from capienza.catalog.offer import Fee, Price
from capienza.decide.afford import affordable_hours
from capienza.decide.cost import cost_of
from capienza.decide.used import Job
from capienza.evidence.record import Scope
from capienza.plan.hours import Hours
from capienza.units import Money

DEADLINE = at(13)
DURATIONS = (
    "decide.settle-durations",
    "decide.settle-durations-open",
    "decide.settle-rate-of-work",
    "decide.settle-rate-of-work-open",
    "decide.settle-no-time",
)


def usd(amount) -> Money:
    return Money(Decimal(amount), "USD")


def by_hour(**fields) -> Price:
    base = {"kind": "per_gpu_hour", "money": usd("6"), "billing_step_s": 3600, "starts_at": at(7), "tax_included": True}
    return Price(**(base | fields))


def verdict(cap, price, hours, basis="hypothetical", deadline=DEADLINE, fees=(), records=()):
    step = Step(name="run", hours=Decimal(hours), basis=basis)
    card = make_card(
        budget=Budget(cap=usd(cap)), calendar=Calendar(timezone="UTC", start=at(7), deadline=deadline, steps=(step,))
    )
    return judge(card=card, offer=make_offer(price=price, fees=fees), records=records).criterion("budget")


def limits(row):
    return [(step.code, step.parameters.get("available")) for step in row.settle if step.code in DURATIONS]


@pytest.mark.parametrize(
    "cap, price, deadline, expected",
    [
        (600, {}, at(13), ("decide.settle-durations", "100")),
        (6000, {}, at(13), ("decide.settle-durations", "144")),
        (600, {}, None, ("decide.settle-durations", "100")),
        (600, {"billing_step_s": 60, "money": usd("11")}, at(13), ("decide.settle-durations", "54.53")),
        (600, {"billing_step_s": None, "money": usd("11")}, at(13), ("decide.settle-durations", "54")),
        (600, {"min_hours": Decimal(90)}, at(13), ("decide.settle-durations", "100")),
        (600, {"max_hours": Decimal(40)}, at(13), ("decide.settle-durations", "40")),
        (5, {}, at(13), ("decide.settle-no-time", None)),
        (10**9, {"money": usd("0.01")}, None, ("decide.settle-durations-open", None)),
    ],
)
def test_the_smaller_of_cap_and_calendar_is_named_once(cap, price, deadline, expected):
    row = verdict(cap, by_hour(**price), 60, deadline=deadline)
    assert row.state == "to_confirm"
    assert limits(row) == [expected]


def test_a_package_is_limited_by_the_calendar_alone():
    price = Price(kind="total", money=usd(90), term_hours=Decimal(72), starts_at=at(7), tax_included=True)
    assert limits(verdict(100, price, 60)) == [("decide.settle-durations", "72")]


def test_a_cap_in_another_currency_counts_through_the_rate():
    rate = make_document("exchange_rate", "2", Scope(), unit="EUR/USD")
    price = by_hour(money=Money(Decimal(3), "EUR"))
    assert limits(verdict(600, price, 60, records=(rate,))) == [("decide.settle-durations", "100")]


def test_no_pilot_is_asked_for_where_every_duration_is_documented():
    row = verdict("300.05", by_hour(billing_step_s=None), "50.001", basis="measured")
    assert row.state == "to_confirm"
    assert (limits(row), codes(row.settle)) == ([], ["decide.billing-step-unknown"])


def unknown_run(cap="300", price=None, deadline=DEADLINE, **fields):
    """A step that states its work alone, beside one of three measured hours; nothing tells the rate of the work."""
    steps = (Step(name="run", work_tokens=36_000_000), Step(name="load", hours=Decimal(3), basis="measured"))
    plan = Calendar(timezone="UTC", start=at(7), deadline=deadline, steps=steps, **fields)
    card = make_card(budget=Budget(cap=usd(cap)), calendar=plan)
    return judge(card=card, offer=make_offer(price=price or by_hour(money=usd(18)))).criterion("budget")


class TestHoursThatNothingStates:
    def test_the_cap_of_an_hourly_offer_limits_them(self):
        """300 USD pay for 16 hours at 18 USD, and not for the 144 of the calendar."""
        row = unknown_run()
        assert limits(row) == [("decide.settle-rate-of-work", "16")]
        assert {"decide.hours-open", "decide.durations-unknown"} <= set(codes(row.reasons))
        assert "decide.durations-hypothetical" not in codes(row.reasons)

    def test_what_else_is_missing_stays_to_be_settled(self):
        """A tax that is not stated only adds: no more hours than these can settle it."""
        row = unknown_run(price=by_hour(money=usd(18), tax_included=False))
        assert limits(row) == [("decide.settle-rate-of-work", "16")]
        assert "decide.tax-unknown" in codes(row.settle)

    def test_contingency_takes_its_part(self):
        assert limits(unknown_run(contingency_percent=Decimal(25))) == [("decide.settle-rate-of-work", "12.8")]

    def test_nothing_limits_them(self):
        price = by_hour(money=usd("0.01"))
        assert limits(unknown_run("1e9", price, None)) == [("decide.settle-rate-of-work-open", None)]

    def test_a_start_is_not_said_to_settle_it_while_they_are_open(self):
        row = unknown_run(price=by_hour(starts_at=None))
        assert "decide.settle-start-open" in codes(row.settle)
        assert "decide.settle-start" not in codes(row.settle)

    def test_hours_that_fit_no_start_name_none(self):
        assert "decide.settle-start-open" in codes(verdict(9000, by_hour(starts_at=None), 500).settle)
        assert "decide.settle-start" in codes(verdict(9000, by_hour(starts_at=None), 50).settle)


@pytest.mark.parametrize(
    "hours, price, expected",
    [
        (144, {}, None),
        (156, {}, ("decide.ends-late", "12")),
        (50, {"max_hours": Decimal(40)}, ("decide.takes-longer", "10")),
        (40, {"max_hours": Decimal(40)}, None),
    ],
)
def test_a_plan_that_comes_too_late_as_guessed_says_by_how_much(hours, price, expected):
    row = verdict(9000, by_hour(**price), hours)
    told = [(one.code, one.parameters["late"]) for one in row.reasons if "late" in one.parameters]
    assert row.state == "to_confirm"
    assert told == ([expected] if expected else [])


@pytest.mark.parametrize("deadline, code", [
    (DEADLINE, "decide.window-enough-with-contingency"), (None, "decide.window-open-with-contingency"),
])  # fmt: skip
def test_measured_hours_are_told_apart_from_their_contingency(deadline, code):
    step = Step(name="run", hours=Decimal(64), basis="measured")
    plan = Calendar(timezone="UTC", start=at(7), deadline=deadline, steps=(step,), contingency_percent=Decimal(20))
    row = judge(card=make_card(budget="none", calendar=plan), offer=make_offer(price=by_hour())).criterion("budget")
    (told,) = [one for one in row.reasons if one.code == code]
    assert (told.parameters["needed"], told.parameters["planned"]) == ("64", "76.8")


amounts = st.integers(1, 5000).map(lambda cents: Decimal(cents) / 100)
prices = st.builds(
    by_hour,
    kind=st.sampled_from(["per_gpu_hour", "per_offer_hour"]),
    money=amounts.map(usd),
    min_hours=st.none() | st.integers(1, 90).map(Decimal),
    billing_step_s=st.sampled_from([1, 60, 900, 3600]),
    tax_included=st.sampled_from([True, False]),
    tax_percent=st.integers(0, 30).map(Decimal),
)
fee_lists = st.lists(
    st.builds(
        Fee,
        kind=st.just("ip"),
        money=amounts.map(usd),
        unit=st.sampled_from(["once", "per_hour", "percent"]),
        included=st.none() | st.integers(0, 90).map(Decimal),
    ),
    max_size=2,
).map(tuple)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3000), prices, fee_lists, st.integers(1, 130), st.sampled_from([at(9), at(13), None]))
def test_what_is_named_settles_and_more_does_not(cap, price, fees, planned, deadline):
    row = verdict(cap, price, planned, fees=fees, deadline=deadline)
    if row.state != "to_confirm":
        return
    ((code, named),) = limits(row)
    step = (Decimal(price.billing_step_s) / 3600).quantize(Decimal("0.01"), "ROUND_CEILING")
    if code == "decide.settle-durations":
        assert verdict(cap, price, named, "measured", deadline, fees).state == "admissible"
        more = Decimal(named) + max(Decimal("0.02"), step)
        assert verdict(cap, price, more, "measured", deadline, fees).state != "admissible"
    elif code == "decide.settle-no-time":
        # A question on a fee may still be answered in the offer's favour.
        at_once = verdict(cap, price, "0.001", "measured", deadline, fees)
        assert at_once.state == "exclude" or "decide.fee-while-stopped" in codes(at_once.reasons)


@settings(max_examples=200, deadline=None)
@given(prices, fee_lists, amounts, amounts)
def test_the_cap_pays_for_these_steps_and_not_for_one_more(price, fees, cap, planned):
    offer = make_offer(price=price, fees=fees)

    def bill(hours):
        return cost_of(offer, Job(hours=Hours(least=hours, planned=hours, is_stated=True, is_documented=True)))

    def paid(hours):
        return bill(hours).planned.amount

    asked = 0

    def counted(hours):
        nonlocal asked
        asked += 1
        return bill(hours)

    most = affordable_hours(offer, counted, cap, planned)
    step = (Decimal(price.billing_step_s) / 3600).quantize(Decimal("1e-8"), "ROUND_CEILING")
    assert asked < 100
    if most is not None:
        assert paid(most + step) > cap
        assert most == 0 or paid(most) <= cap


def test_hours_are_named_rounded_down():
    deadline = at(7) + datetime.timedelta(seconds=3600 * 59 + 3582)
    assert limits(verdict(6000, by_hour(billing_step_s=1), 30, deadline=deadline)) == [
        ("decide.settle-durations", "59.99")
    ]
