"""Order of what can be chosen, the scale it must bear, and what pins a decision."""

from __future__ import annotations

from decimal import Decimal

import pytest
from decide_world import (
    CLAIM,
    GOOD_RECORDS,
    NOW,
    SCOPE,
    at,
    change,
    codes,
    make_card,
    make_ledger,
    make_offer,
    make_quality,
    make_run,
    make_sizing,
    peaks,
    run_claims,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.catalog.offer import Price
from capienza.decide import policy
from capienza.decide.cost import Cost
from capienza.decide.engine import decide
from capienza.decide.preferences import preferences_met, unknown_preferences
from capienza.decide.ranking import shortlist
from capienza.decide.verdict import Decision, Margin, Prediction
from capienza.ledger.ledger import Total
from capienza.units import GIB, Money, Range


def decision(offer, state="admissible", cost="10", currency="USD", margin=GIB, finish=None, fit="fit", preferences=()):
    money = None if cost is None else Money(Decimal(cost), currency)
    prediction = fit and Prediction(fit=fit, device="gpu:0", peak=Total(Range.exact(0)), usable_bytes=0)
    return Decision(
        offer=offer,
        state=state,
        criteria=(),
        prediction=prediction,
        margin=None if margin is None else Margin(amount_bytes=margin, basis="observed"),
        cost=Cost(minimum=money, planned=money, is_exact=money is not None),
        finish=finish,
        preferences=preferences,
    )


def order(*decisions, card=None):
    return [place.offer for place in shortlist(card or make_card(), decisions).selected]


class TestOrder:
    def test_cost_then_margin_then_calendar_then_preferences(self):
        rows = [
            decision("preferred", finish=at(9), preferences=(True,)),
            decision("other", finish=at(9), preferences=(False,)),
            decision("cheap", cost="9.99", margin=0, preferences=(False,)),
            decision("roomy", margin=2 * GIB, preferences=(False,)),
            decision("early", finish=at(8), preferences=(False,)),
            decision("undated", preferences=(True,)),
            decision("no-margin", margin=None, finish=at(8), preferences=(True,)),
            decision("no-price", cost=None, margin=9 * GIB, preferences=(True,)),
        ]
        expected = ["cheap", "roomy", "early", "preferred", "other", "undated", "no-margin", "no-price"]
        assert order(*rows) == order(*reversed(rows)) == expected

    def test_an_unanswered_preference_is_not_met(self):
        assert order(decision("b", preferences=(None,)), decision("a", preferences=(True,))) == ["a", "b"]

    def test_only_the_admissible_are_selected(self):
        rows = [decision("x", "to_confirm", "1"), decision("y", "exclude", "0.1"), decision("z", cost="100")]
        found = shortlist(make_card(), rows)
        assert [place.offer for place in found.selected] == ["z"]
        assert [place.offer for place in found.lists[0].to_confirm] == ["x"]
        assert found.excluded == 1

    def test_to_confirm_by_predicted_fit_then_cost(self):
        rows = [
            decision("tight", "to_confirm", "1", fit="borderline"),
            decision("over", "to_confirm", "1", fit="overflow"),
            decision("dear", "to_confirm", "20"),
            decision("cheap", "to_confirm", "10"),
            decision("unknown-cost", "to_confirm", None),
            decision("nothing", "to_confirm", "1", fit=None),
        ]
        found = shortlist(make_card(), rows)
        assert [place.offer for place in found.lists[0].to_confirm] == ["cheap", "dear", "tight", "over", "nothing"]
        assert [place.offer for place in found.lists[-1].to_confirm] == ["unknown-cost"]
        assert found.lists[-1].currency is None
        assert codes(found.notes) == ["decide.costs-unknown"]

    def test_currencies_are_never_compared(self):
        rows = [
            decision("euro", currency="EUR", cost="1", finish=at(9)),
            decision("dollar", cost="50", finish=at(9)),
            decision("yen", currency="JPY", finish=at(9)),
        ]
        found = shortlist(make_card(), rows)
        assert [(one.currency, [place.offer for place in one.selected]) for one in found.lists] == [
            ("USD", ["dollar"]),
            ("EUR", ["euro"]),
            ("JPY", ["yen"]),
        ]
        assert codes(found.notes) == ["decide.currencies-apart"]
        assert "USD, EUR, JPY" in str(found.notes[0])

    def test_equal_figures_share_a_place(self):
        found = shortlist(make_card(), [decision("b"), decision("a"), decision("c", cost="11")])
        assert [(place.place, place.offer) for place in found.selected] == [(1, "a"), (1, "b"), (3, "c")]

    @settings(max_examples=300, deadline=None)
    @given(
        st.lists(
            st.builds(
                decision,
                st.integers(0, 99).map(str),
                st.sampled_from(["admissible", "to_confirm", "exclude"]),
                st.none() | st.integers(1, 3).map(str),
                st.sampled_from(["USD", "EUR"]),
                st.none() | st.integers(-2, 2),
                st.none() | st.integers(1, 3).map(at),
            ),
            max_size=8,
            unique_by=lambda one: one.offer,
        ),
        st.randoms(),
    )
    def test_every_offer_has_one_place_whatever_the_order(self, rows, random):
        found = shortlist(make_card(), rows)
        shuffled = rows[:]
        random.shuffle(shuffled)
        assert shortlist(make_card(), shuffled) == found
        places = [place for one in found.lists for place in (*one.selected, *one.to_confirm)]
        assert sorted(place.offer for place in places) == sorted(one.offer for one in rows if one.state != "exclude")
        assert found.excluded == sum(one.state == "exclude" for one in rows)
        for one in found.lists:
            costs = [place.cost.amount for place in one.selected if place.cost]
            assert costs == sorted(costs)


class TestPreferences:
    def test_what_an_offer_answers(self):
        offer = make_offer(region="eu-west-1", country="DE", provider="Example", gpu_link="nvlink")
        wishes = ({"region": "eu"}, {"country": "de"}, {"provider": "example", "gpu": "rtx4090"}, {"gpu_link": "pcie"})
        assert preferences_met(wishes, offer) == (True, True, True, True, False)
        assert preferences_met(({"region": "eu"}, {"cancellable": "true"}), make_offer()) == (None, None)
        assert preferences_met(({"region": "eu"},), make_offer(region="europe")) == (False,)

    def test_one_nobody_can_answer_is_said(self):
        (note,) = unknown_preferences(({"colour": "green"}, {"region": "eu"}))
        assert note.parameters["field"] == "colour"
        card = make_card(preferences=({"colour": "green"},))
        assert codes(shortlist(card, []).notes) == ["decide.preference-unknown"]


class TestScale:
    def test_a_card_class_is_worked_out_once(self):
        asked = []

        def sizing_for(claim, gpus):
            asked.append((claim.name_raw, gpus))
            return make_sizing()

        offers = [make_offer(id=str(number), gpu=change(CLAIM, name_raw=f"gpu {number % 3}")) for number in range(3000)]
        rows = list(decide(make_card(), iter(offers), sizing_for, GOOD_RECORDS, NOW))
        assert sorted(asked) == [("gpu 0", 1), ("gpu 1", 1), ("gpu 2", 1)]
        assert [row.offer for row in rows] == [offer.id for offer in offers]
        for name in ("workload", "compatibility", "memory", "quality"):
            assert len({id(row.criterion(name)) for row in rows}) == 3

    def test_decisions_come_one_at_a_time(self):
        seen = []

        def endless():
            number = 0
            while True:
                seen.append(number)
                yield make_offer(id=str(number))
                number += 1

        stream = decide(make_card(), endless(), lambda *_: make_sizing(), GOOD_RECORDS, NOW)
        assert [next(stream).offer for _ in range(3)] == ["0", "1", "2"]
        assert seen == [0, 1, 2]

    @pytest.mark.slow
    def test_a_hundred_thousand_offers(self):
        base = make_offer()
        offers = (
            change(base, id=str(number), gpu=change(CLAIM, name_raw=f"gpu {number % 300}")) for number in range(100_000)
        )
        states = [row.state for row in decide(make_card(), offers, lambda *_: make_sizing(), GOOD_RECORDS, NOW)]
        assert states == ["admissible"] * 100_000

    def test_many_records_are_summed_up(self):
        records = [make_run(change(SCOPE, tokens=tokens)) for tokens in range(1, 40)]
        (row,) = decide(make_card(), [make_offer()], lambda *_: make_sizing(), records, NOW)
        reasons = row.criterion("workload").reasons
        assert len(reasons) < 10
        assert reasons[-1].code == "decide.more-records"


class TestBesideTheVerdict:
    def test_fit_word_and_margin_when_only_predicted(self):
        table = [((15, 17, 19), "fit"), ((15, 17, 22), "borderline"), ((15, 24, 25), "overflow")]
        for figures, word in table:
            sizing = make_sizing(ledger=make_ledger(*(figure * GIB for figure in figures)))
            (row,) = decide(make_card(), [make_offer()], lambda *_, s=sizing: s, (), NOW)
            assert (row.fit, row.criterion("memory").state) == (word, "to_confirm")
            assert row.margin.basis == "predicted"
            assert row.margin.amount_bytes == make_sizing().capacity.smallest_bytes - figures[2] * GIB

    def test_the_observed_margin_is_that_of_the_fullest_covering_run(self):
        runs = [make_run(claims=run_claims(measured=peaks(size * GIB))) for size in (19, 20)]
        smaller = make_run(change(SCOPE, tokens=1), run_claims(measured=peaks(21 * GIB)))
        (row,) = decide(make_card(), [make_offer()], lambda *_: make_sizing(), [*runs, smaller], NOW)
        assert row.margin == Margin(amount_bytes=make_sizing().capacity.smallest_bytes - 20 * GIB, basis="observed")

    def test_no_prediction_no_word(self):
        sizing = make_sizing(ledger=None)
        (row,) = decide(make_card(), [make_offer()], lambda *_: sizing, (), NOW)
        assert (row.fit, row.margin) == (None, None)


def test_criteria_are_data_and_their_digest_moves_with_them(monkeypatch):
    ids = [criterion.id for criterion in policy.CRITERIA]
    assert ids == ["workload", "compatibility", "memory", "quality", "placement", "budget"]
    before = policy.policy_digest()
    assert policy.policy_digest() == before
    monkeypatch.setattr(policy, "CRITERIA", policy.CRITERIA[:-1])
    assert policy.policy_digest() != before


def test_a_criterion_that_was_never_judged_has_no_verdict():
    with pytest.raises(KeyError):
        decision("a").criterion("memory")


def test_hourly_prices_are_ranked_by_the_whole_job():
    package = make_offer(id="package")
    hour = Price(
        kind="per_gpu_hour",
        money=Money(Decimal("1.00"), "USD"),
        billing_step_s=1,
        starts_at=at(7),
        tax_included=True,
    )
    offers = [package, make_offer(id="hourly", price=hour)]
    records = (*GOOD_RECORDS, make_quality(version="2"))
    rows = list(decide(make_card(), offers, lambda *_: make_sizing(), records, NOW))
    assert [(place.offer, str(place.cost)) for place in shortlist(make_card(), rows).selected] == [
        ("hourly", "30.00 USD"),
        ("package", "47.14 USD"),
    ]
