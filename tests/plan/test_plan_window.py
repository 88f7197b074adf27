"""The time of an offer: how much of it can be used for certain and at the most, and the moments of a plan in it."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.card.model import Calendar, Step
from capienza.plan.hours import Hours
from capienza.plan.judge import examine
from capienza.plan.steps import plan_of
from capienza.plan.window import Terms, schedule_of, window_of

ROME = datetime.timezone(datetime.timedelta(hours=1))


def at(day: int, hour: int = 0) -> datetime.datetime:
    return datetime.datetime(2026, 12, day, hour, tzinfo=datetime.UTC)


NOW = at(1, 9)
TERMS = [
    # offer, card, at the most, for certain
    ({}, {}, None, None),
    ({}, {"start": at(7), "deadline": at(12)}, 120, 120),
    ({}, {"deadline": at(2, 9)}, 24, 24),
    ({"opens": at(7)}, {"start": at(5), "deadline": at(8)}, 24, 24),
    ({"opens": at(5)}, {"start": at(7), "deadline": at(8)}, 24, 24),
    ({"closes": at(8)}, {"start": at(7), "deadline": at(12)}, 24, 24),
    ({"closes": at(7)}, {"start": at(7)}, 0, 0),
    ({"closes": at(6)}, {"start": at(7)}, 0, 0),
    ({"paid_hours": 72}, {"start": at(7), "deadline": at(12)}, 72, 72),
    ({"max_hours": 40}, {"start": at(7), "deadline": at(12)}, 40, 40),
    ({"paid_hours": 72, "usable_hours": 70}, {"start": at(7)}, 70, 70),
    # a package with a first date, of which the card uses less
    ({"paid_hours": 72, "opens": at(7)}, {"start": at(7)}, 72, 72),
    ({"paid_hours": 72, "opens": at(7)}, {"start": at(8)}, 72, 48),
    ({"paid_hours": 72, "opens": at(7)}, {"start": at(12)}, 72, 0),
    ({"paid_hours": 72, "opens": at(7), "closes": at(10)}, {"start": at(8)}, 48, 48),
    ({"paid_hours": 72, "opens": at(7), "closes": at(12)}, {"start": at(8)}, 72, 48),
    # what the seller ends early may be the last hours
    ({"paid_hours": 72, "usable_hours": 71, "opens": at(7), "closes": at(10)}, {"start": at(7)}, 71, 71),
    ({"paid_hours": 72, "usable_hours": 71, "opens": at(7), "closes": at(10)}, {"start": at(8)}, 48, 47),
    # in 8 hours of each day
    ({}, {"start": at(7), "deadline": at(9), "daily_hours": Decimal(8)}, 16, 16),
    ({}, {"start": at(7), "deadline": at(9, 12), "daily_hours": Decimal(8)}, 24, 16),
    ({"usable_hours": 10}, {"start": at(7), "deadline": at(9), "daily_hours": Decimal(8)}, 10, 0),
]


@pytest.mark.parametrize("terms, card, most, certain", TERMS)
def test_what_can_be_used(terms, card, most, certain):
    hours = {name: Decimal(value) if isinstance(value, int) else value for name, value in terms.items()}
    window = window_of(Terms(**hours), Calendar(**card), NOW)
    assert (window.most_hours, window.certain_hours) == (most, certain)


def test_moments_of_two_zones_are_compared_in_one():
    calendar = Calendar(start=datetime.datetime(2026, 12, 7, tzinfo=ROME), deadline=at(7))
    assert window_of(Terms(), calendar, NOW).most_hours == 1


def test_a_schedule_says_when_it_ends_and_how_late_it_may_begin():
    window = window_of(Terms(), Calendar(start=at(7), deadline=at(12)), NOW)
    found = schedule_of(window, Hours(least=Decimal(24), planned=Decimal(48), is_stated=True))
    assert (found.start, found.soonest, found.finish, found.end) == (at(7), at(8), at(9), at(12))
    assert (found.slack_hours, found.latest_start) == (72, at(10))
    late = schedule_of(window, Hours(planned=Decimal(150), is_stated=True))
    assert (late.slack_hours, late.latest_start) == (-30, at(5, 18))
    unknown = schedule_of(window, Hours(least=Decimal(24)))
    assert (unknown.soonest, unknown.finish, unknown.slack_hours, unknown.latest_start) == (at(8), None, None, None)
    endless = schedule_of(window_of(Terms(), Calendar(), NOW), Hours(planned=Decimal(10**9), is_stated=True))
    assert (endless.finish, endless.end) == (None, None)


moments = st.integers(0, 400).map(lambda hours: at(1) + datetime.timedelta(hours=hours))
some_hours = st.none() | st.integers(1, 400).map(Decimal)
all_terms = st.builds(
    Terms,
    opens=st.none() | moments,
    closes=st.none() | moments,
    paid_hours=some_hours,
    usable_hours=some_hours,
    max_hours=some_hours,
)
calendars = st.builds(
    lambda start, deadline, daily, steps: Calendar(start=start, deadline=deadline, daily_hours=daily, steps=steps),
    st.none() | moments,
    st.none() | moments,
    st.none() | st.integers(1, 24).map(Decimal),
    st.lists(
        st.builds(
            Step,
            name=st.just("run"),
            hours=st.integers(1, 100).map(Decimal),
            basis=st.sampled_from(["measured", "hypothetical"]),
        ),
        max_size=3,
    ).map(tuple),
)


@settings(max_examples=500, deadline=None)
@given(all_terms, calendars, st.integers(1, 50))
def test_what_is_certain_is_never_more_and_a_higher_floor_never_ends_earlier(terms, calendar, more):
    window = window_of(terms, calendar, NOW)
    assert (window.most_hours is None) == (window.certain_hours is None)
    if window.certain_hours is not None:
        assert 0 <= window.certain_hours <= window.most_hours
    hours = plan_of(calendar).hours
    longer = Hours(least=hours.least + more, planned=hours.planned + more, is_stated=hours.is_stated, daily=hours.daily)
    before, after = schedule_of(window, hours), schedule_of(window, longer)
    for name in ("soonest", "finish"):
        if getattr(before, name) is not None and getattr(after, name) is not None:
            assert getattr(before, name) <= getattr(after, name)


@settings(max_examples=500, deadline=None)
@given(all_terms, calendars)
def test_hypothetical_hours_decide_nothing_and_what_is_enough_ends_in_time(terms, calendar):
    plan, window = plan_of(calendar), window_of(terms, calendar, NOW)
    found = examine(plan, calendar, window, NOW, "card.yaml")
    if plan.open_steps and not found.failure:
        assert found.reasons
        assert found.settle
    if plan.steps and not found.failure and not found.reasons and window.latest is not None:
        assert schedule_of(window, plan.hours).finish <= window.latest
    if found.failure and found.failure.code == "decide.window-short":
        assert plan.hours.least > window.most_hours
        assert any(step.basis == "measured" for step in plan.steps)
