"""Hours of work in days that hold fewer: the closed forms against every moment of the day tried one by one."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.plan.hours import Hours, latest, soonest, workable_at_most, workable_for_certain


def done_after(work: int, daily: int, first: int) -> int:
    """Hours that go by until `work` hours are done, from the hour `first` on; there is work from 0 to `daily`."""
    elapsed = 0
    while work:
        work -= (first + elapsed) % 24 < daily
        elapsed += 1
    return elapsed


def worked_in(elapsed: int, daily: int, first: int) -> int:
    return sum((first + hour) % 24 < daily for hour in range(elapsed))


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 120), st.integers(1, 24))
def test_soonest_and_latest_are_those_of_the_best_and_the_worst_hour_to_begin(work, daily):
    every = [done_after(work, daily, first) for first in range(24)]
    assert soonest(Decimal(work), Decimal(daily)) == min(every)
    assert latest(Decimal(work), Decimal(daily)) == max(every)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 200), st.integers(1, 24))
def test_what_a_time_holds_is_that_of_the_worst_and_the_best_hour_to_begin(elapsed, daily):
    every = [worked_in(elapsed, daily, first) for first in range(24)]
    assert workable_for_certain(Decimal(elapsed), Decimal(daily)) == min(every)
    assert workable_at_most(Decimal(elapsed), Decimal(daily)) == max(every)


quarters = st.integers(0, 4000).map(lambda quarter: Decimal(quarter) / 4)
dailies = st.none() | st.integers(1, 96).map(lambda quarter: Decimal(quarter) / 4)


@settings(max_examples=300, deadline=None)
@given(quarters, quarters, dailies)
def test_the_two_ways_agree_and_never_shrink(hours, more, daily):
    """What is done for certain in some time fits it, and a little more does not; more work never ends earlier."""
    assert workable_for_certain(latest(hours, daily), daily) == hours
    assert workable_at_most(soonest(hours, daily), daily) == hours
    assert soonest(hours, daily) <= latest(hours, daily)
    assert soonest(hours, daily) <= soonest(hours + more, daily)
    assert latest(hours, daily) <= latest(hours + more, daily)


@pytest.mark.parametrize(
    "hours, daily, least, most",
    [
        ("30", None, "30", "30"),
        ("30", "24", "30", "30"),
        ("8", "8", "8", "24"),
        ("9", "8", "25", "41"),
        ("30", "8", "78", "94"),
        ("0", "8", "0", "0"),
        ("0.5", "0.1", "96.1", "120"),
    ],
)
def test_worked_days(hours, daily, least, most):
    plan = Hours(least=Decimal(hours), planned=Decimal(hours), daily=daily and Decimal(daily))
    assert (plan.least_elapsed, plan.planned_elapsed) == (Decimal(least), Decimal(most))
