"""Costs in another currency: converted by dated rates, ranked beside the rest, and never silently."""

from __future__ import annotations

from decimal import Decimal

import pytest
from decide_scenes import price
from decide_world import GOOD_RECORDS, at, change, judge, make_card, make_document, make_offer
from hypothesis import given
from hypothesis import strategies as st

from capienza.decide.ranking import is_late, shortlist
from capienza.evidence.record import Scope
from capienza.units import Money


def euros(amount):
    return make_offer(price=price(money=Money(Decimal(amount), "EUR")))


def rate(value, unit="EUR/USD", scope=None, source="public_page"):
    return make_document("exchange_rate", value, scope or Scope(), unit=unit, producer={"source": source})


# rates, the least and the planned in USD (None: apart)
TABLE = [
    ((), None),
    ((rate("1.16"),), ("116.00", "116.00")),
    ((rate("0.8", "USD/EUR"),), ("125.00", "125.00")),
    ((rate("1.16"), rate("0.8", "USD/EUR")), ("116.00", "125.00")),
    ((rate("1.16", source="contract"), rate("0.8", "USD/EUR")), ("116.00", "116.00")),
    ((rate("1.16", scope=Scope(offer="another")),), None),
    ((rate("1.16", scope=Scope(provider="another")),), None),
    ((rate("1.16", scope=Scope(offer="any")),), ("116.00", "116.00")),
    ((rate("1.16", scope=Scope(offer="rtx4090-1x3d")),), ("116.00", "116.00")),
    ((rate("1.16", "EUR/JPY"),), None),
]


@pytest.mark.parametrize("rates, expected", TABLE)
def test_what_a_cost_comes_to_in_the_currency_of_the_cap(rates, expected):
    found = judge(offer=euros("100"), records=(*GOOD_RECORDS, *rates))
    if expected is None:
        assert (found.converted, found.currency) == (None, "EUR")
        return
    assert found.converted is not None
    assert found.converted.planned is not None
    assert (found.converted.minimum.amount, found.converted.planned.amount) == tuple(map(Decimal, expected))
    assert set(found.converted.records) <= {one.id for one in rates}
    assert (found.currency, found.cost.currency) == ("USD", "EUR")


def test_both_currencies_share_a_list_once_a_rate_is_there():
    here = change(judge(), offer="dollars")
    there = judge(offer=euros("30"), records=(*GOOD_RECORDS, rate("1.16")))
    (one,) = shortlist(make_card(), [here, there]).lists
    assert [(place.offer, str(place.cost)) for place in one.selected] == [
        ("rtx4090-1x3d", "34.80 USD"),
        ("dollars", "47.14 USD"),
    ]
    assert str(one.selected[0].original) == "30 EUR"
    assert one.selected[1].original is None
    assert len(shortlist(make_card(), [here, judge(offer=euros("30"))]).lists) == 2


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_two_rates_bound_what_each_alone_gives(cents, one, other):
    rates = [rate(f"{value / 10**4:f}") for value in (one, other)]
    offer = euros(Decimal(cents) / 100)
    alone = [judge(offer=offer, records=[single]).converted for single in rates]
    both = judge(offer=offer, records=rates).converted
    assert both is not None
    assert both.minimum.amount == min(found.minimum.amount for found in alone)
    assert both.planned.amount == max(found.planned.amount for found in alone)


def test_what_comes_too_late_as_planned_stands_after_the_rest():
    from decide_scenes import calendar

    card = make_card(calendar=calendar(("60", "hypothetical")))
    late = judge(card=card, offer=make_offer(price=price(starts_at=at(11), ends_at=at(14))))
    dear = change(judge(card=card, offer=make_offer(price=price(money=Money(Decimal(200), "USD")))), offer="dear")
    assert (is_late(late), is_late(dear)) == (True, False)
    (one,) = shortlist(card, [late, dear]).lists
    assert [(place.offer, place.is_late) for place in one.to_confirm] == [("dear", False), ("rtx4090-1x3d", True)]
