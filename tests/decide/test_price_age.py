"""A price that is older than the card accepts is open, whatever it says; one with an end of its own is not old."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from decide_world import DAY, NOW, codes, judge, make_card, make_offer
from hypothesis import given
from hypothesis import strategies as st

from capienza.card.model import Budget
from capienza.catalog.offer import Document
from capienza.units import Money

WEEK = datetime.timedelta(days=7)


def aged(age: datetime.timedelta, accepted: datetime.timedelta | None = WEEK, cap: int = 300, **document):
    offer = make_offer(document=Document(id="sheet", retrieved=NOW - age, **document))
    card = make_card(budget=Budget(cap=Money(Decimal(cap), "USD"), price_age=accepted))
    return next(row for row in judge(card, offer).criteria if row.criterion == "budget")


@pytest.mark.parametrize(
    "age, accepted, state",
    [
        (6 * DAY, WEEK, "admissible"),
        (7 * DAY, WEEK, "admissible"),
        (7 * DAY + datetime.timedelta(seconds=1), WEEK, "to_confirm"),
        (300 * DAY, WEEK, "to_confirm"),
        (300 * DAY, None, "admissible"),
        (datetime.timedelta(hours=37), datetime.timedelta(hours=36), "to_confirm"),
    ],
)
def test_the_age_that_the_card_accepts(age, accepted, state):
    row = aged(age, accepted)
    assert row.state == state
    assert ("decide.price-too-old" in codes(row.reasons)) == (state == "to_confirm")
    assert ("decide.settle-price-too-old" in codes(row.settle)) == (state == "to_confirm")


def test_the_age_is_shown_with_what_the_price_said():
    row = aged(9 * DAY)
    assert "9 days ago; the card accepts 7 days" in str(row.reasons[0])
    assert "decide.cost-within" in codes(row.reasons)
    assert "37 h ago; the card accepts 36 h" in str(
        aged(datetime.timedelta(hours=36.5), datetime.timedelta(hours=36)).reasons[0]
    )


def test_an_old_price_above_the_cap_excludes_nobody():
    assert aged(DAY, cap=40).state == "exclude"
    assert aged(9 * DAY, cap=40).state == "to_confirm"


def test_a_quote_that_is_still_open_is_not_too_old():
    assert aged(300 * DAY, valid_until=NOW + DAY).state == "admissible"


def test_hardware_does_not_age_with_the_price():
    offer = make_offer(document=Document(id="sheet", retrieved=NOW - 30 * DAY))
    rows = {}
    for accepted in (None, WEEK):
        budget = Budget(cap=Money(Decimal(300), "USD"), price_age=accepted)
        rows[accepted] = {row.criterion: row.state for row in judge(make_card(budget=budget), offer).criteria}
    assert rows[None] | {"budget": "to_confirm"} == rows[WEEK]


@given(st.integers(0, 4000), st.integers(0, 4000), st.integers(1, 2000), st.sampled_from([40, 300]))
def test_an_older_price_never_decides_more(younger, older, accepted, cap):
    younger, older = sorted((younger, older))
    hours = datetime.timedelta(hours=1)
    first, second = (aged(age * hours, accepted * hours, cap).state for age in (younger, older))
    assert second in (first, "to_confirm")
