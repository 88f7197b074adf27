"""The order with thresholds, the Pareto set and the steps: worked tables, properties, and slow oracles."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal

import pytest
from decide_strategies import judge as judge_world
from decide_strategies import worlds
from decide_world import at, change, codes, make_card
from hypothesis import given, settings
from hypothesis import strategies as st
from test_decide_ranking import decision

from capienza.card.load import parse_card
from capienza.card.model import DEFAULT_ORDER, RankBy, Within
from capienza.decide.effort import EFFORTS, Effort, effort_of
from capienza.decide.pareto import undominated
from capienza.decide.ranking import ranked, shortlist
from capienza.decide.steps import steps_of
from capienza.decide.summary import summarise
from capienza.decide.verdict import CriterionVerdict
from capienza.errors import TEMPLATES, Template
from capienza.units import GIB

PERCENT, SIZE, HOURS = "%", "B", "h"


def rank(by, amount=None, unit=None):
    return RankBy(by=by, within=None if amount is None else Within(Decimal(amount), unit))


TWO_PERCENT = (rank("cost", "2", PERCENT), rank("margin", GIB, SIZE), rank("finish", "12", HOURS), rank("preferences"))


def places(order, *rows, **card):
    """What shares a place, place by place."""
    listed = shortlist(make_card(ranking=order, **card), rows).selected
    return [[one.offer for one in tied] for _, tied in itertools.groupby(listed, key=lambda one: one.place)]


class TestThresholds:
    def test_near_prices_are_equal_and_the_margin_decides(self):
        rows = [decision("a", cost="100", margin=GIB), decision("b", cost="102", margin=4 * GIB)]
        assert places(DEFAULT_ORDER, *rows) == [["a"], ["b"]]
        assert places(TWO_PERCENT, *rows) == [["b"], ["a"]]
        assert places(TWO_PERCENT, rows[0], decision("b", cost="102.01", margin=4 * GIB)) == [["a"], ["b"]]

    def test_groups_are_taken_from_the_best_of_those_that_remain(self):
        """100 is near 102 and 102 near 104, and 104 is not near 100: it begins the next group."""
        rows = [decision(cost, cost=cost, margin=0) for cost in ("100", "102", "104", "106", "106.1")]
        assert places(TWO_PERCENT, *rows) == [["100", "102"], ["104", "106"], ["106.1"]]

    def test_every_figure_has_its_threshold(self):
        base = {"cost": "100"}
        rows = [
            decision("late", margin=5 * GIB, finish=at(3, 1), **base),
            decision("early", margin=4 * GIB, finish=at(2), preferences=(False,), **base),
            decision("half", margin=4 * GIB, finish=at(2, 12), preferences=(True,), **base),
            decision("tight", margin=4 * GIB - 1, finish=at(1), **base),
        ]
        assert places(TWO_PERCENT, *rows) == [["half"], ["early"], ["late"], ["tight"]]

    def test_ties_share_a_place_and_say_so(self):
        rows = [decision(name, cost=cost) for name, cost in (("b", "100"), ("a", "101"), ("c", "103"))]
        found = shortlist(make_card(ranking=TWO_PERCENT), rows).selected
        assert [(one.place, one.is_tied, one.offer) for one in found] == [
            (1, True, "a"),
            (1, True, "b"),
            (3, False, "c"),
        ]

    def test_a_figure_that_is_not_ranked_by_decides_nothing(self):
        rows = [decision("a", cost="100", margin=0), decision("b", cost="100", margin=GIB)]
        assert places((rank("cost"),), *rows) == [["a", "b"]]
        assert places((rank("margin"),), decision("dear", cost="999", margin=GIB), rows[0]) == [["dear"], ["a"]]

    def test_unknown_figures_come_last_and_the_next_one_parts_them(self):
        rows = [
            decision("none", cost="100", margin=None, finish=at(2)),
            decision("early", cost="100", margin=None, finish=at(1)),
            decision("negative", cost="100", margin=-5 * GIB),
        ]
        assert places((*TWO_PERCENT[:2], rank("finish")), *rows) == [["negative"], ["early"], ["none"]]

    def test_the_last_year_that_a_date_can_have(self):
        late = datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.UTC)
        order = (rank("finish", "100000", HOURS),)
        assert places(order, decision("a", finish=late), decision("b", finish=late)) == [["a", "b"]]


figures = st.builds(
    decision,
    offer=st.integers(0, 10**6).map(str),
    cost=st.none() | st.integers(95, 110).map(str),
    margin=st.none() | st.integers(-2, 3).map(lambda half: half * GIB // 2),
    finish=st.none() | st.integers(0, 60).map(lambda hours: at(2) + datetime.timedelta(hours=hours)),
    preferences=st.sampled_from([(True,), (False,), (None,)]),
)
sets = st.lists(figures, max_size=9, unique_by=lambda one: one.offer)
orders = st.sampled_from(
    [
        DEFAULT_ORDER,
        TWO_PERCENT,
        (rank("margin", GIB, SIZE), rank("cost", "5", PERCENT)),
        (rank("finish", "12", HOURS),),
        (rank("cost", "0", PERCENT), rank("margin", 0, SIZE)),
    ]
)
PROPERTY = settings(max_examples=2000, deadline=None)


def names(groups):
    return [[one.offer for one in group] for group in groups]


def slow(rows, order):
    """The definition, word by word: take the best, with all that are near it; then the rest."""
    if not rows:
        return []
    if not order:
        return [sorted(one.offer for one in rows)]
    value = {
        "cost": lambda one: None if one.cost.planned is None else one.cost.planned.amount,
        "margin": lambda one: None if one.margin is None else one.margin.amount_bytes,
        "finish": lambda one: one.finish,
        "preferences": lambda one: [met is True for met in one.preferences],
    }[order[0].by]
    is_larger_better = order[0].by in ("margin", "preferences")
    known = [one for one in rows if value(one) is not None]
    if not known:
        return slow(rows, order[1:])
    best = (max if is_larger_better else min)(map(value, known))
    within = order[0].within

    def is_near(one):
        figure = value(one)
        if within is None:
            return figure == best
        if within.unit == PERCENT:
            return (figure - best) * 100 <= best * within.amount
        if within.unit == SIZE:
            return best - figure <= within.amount
        return Decimal((figure - best).total_seconds()) <= within.amount * 3600

    near = [one for one in known if is_near(one)]
    rest = [one for one in rows if one not in near]
    return slow(near, order[1:]) + slow(rest, order)


@PROPERTY
@given(sets, orders)
def test_the_order_is_the_definition(rows, order):
    assert names(ranked(rows, order)) == slow(rows, order)


@PROPERTY
@given(sets, orders, st.randoms())
def test_a_total_preorder_whatever_the_order_of_the_offers(rows, order, random):
    groups = names(ranked(rows, order))
    assert sorted(itertools.chain(*groups)) == sorted(one.offer for one in rows)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert names(ranked(shuffled, order)) == groups


@PROPERTY
@given(sets, orders, st.integers(0, 8), st.integers(0, 9), st.integers(0, 3), st.integers(0, 30))
def test_a_dominated_offer_changes_nothing_above_it(rows, order, index, cost, margin, finish):
    """Without thresholds every place above it stays. With them, every group before the one it comes to stand in."""
    if not rows or rows[index % len(rows)].cost.planned is None:
        return
    better = rows[index % len(rows)]
    worse = decision(
        "new",
        cost=str(better.cost.planned.amount + cost),
        margin=None if better.margin is None else better.margin.amount_bytes - margin * GIB // 4,
        finish=better.finish and better.finish + datetime.timedelta(hours=finish),
        preferences=tuple(False for _ in better.preferences),
    )
    strict = tuple(rank(one.by) for one in order)
    before, after = names(ranked(rows, strict)), names(ranked([*rows, worse], strict))
    place = next(number for number, group in enumerate(after) if "new" in group)
    assert after[:place] == before[:place]
    # The first figure's groups, alone.
    before, after = names(ranked(rows, order[:1])), names(ranked([*rows, worse], order[:1]))
    place = next(number for number, group in enumerate(after) if "new" in group)
    assert after[:place] == before[:place]


@PROPERTY
@given(sets, orders)
def test_an_offer_that_is_beaten_in_nothing_ranked_by_is_never_behind_without_thresholds(rows, order):
    strict = tuple(rank(one.by) for one in order)
    position = {name: number for number, group in enumerate(names(ranked(rows, strict))) for name in group}
    for one, other in itertools.permutations(rows, 2):
        if all(_is_as_good(one, other, figure.by) for figure in strict):
            assert position[one.offer] <= position[other.offer]


def _is_as_good(one, other, by):
    if by == "preferences":
        return [met is not True for met in one.preferences] <= [met is not True for met in other.preferences]
    if by == "cost":
        mine, theirs = one.cost.planned, other.cost.planned
        return theirs is None or (mine is not None and mine.amount <= theirs.amount)
    if by == "margin":
        return other.margin is None or (one.margin is not None and one.margin.amount_bytes >= other.margin.amount_bytes)
    return other.finish is None or (one.finish is not None and one.finish <= other.finish)


triples = st.tuples(*(st.integers(0, 4) for _ in range(3)))


@PROPERTY
@given(st.lists(triples, max_size=14))
def test_the_pareto_set_is_that_of_brute_force(rows):
    named = {str(number): row for number, row in enumerate(rows)}

    def is_dominated(row):
        return any(other != row and all(a <= b for a, b in zip(other, row, strict=True)) for other in rows)

    assert undominated(named) == {name for name, row in named.items() if not is_dominated(row)}


class TestParetoShown:
    def test_an_unknown_figure_is_neither_in_nor_out(self):
        rows = [
            decision("cheap", cost="1", margin=0, finish=at(9)),
            decision("roomy", cost="2", margin=GIB, finish=at(9)),
            decision("beaten", cost="3", margin=0, finish=at(10)),
            decision("open", cost="9", margin=None, finish=at(9)),
        ]
        found = shortlist(make_card(), rows)
        assert {one.offer: one.is_undominated for one in found.selected} == {
            "cheap": True,
            "roomy": True,
            "beaten": False,
            "open": None,
        }
        assert codes(found.notes) == ["decide.incomparable"]

    def test_without_a_calendar_no_end_is_compared(self):
        rows = [decision("a", cost="1"), decision("b", cost="2")]
        found = shortlist(make_card(calendar="none"), rows)
        assert [one.is_undominated for one in found.selected] == [True, False]
        assert found.notes == ()

    def test_currencies_have_sets_of_their_own(self):
        rows = [decision("a", cost="1", finish=at(9)), decision("b", cost="2", currency="EUR", finish=at(9))]
        assert all(one.is_undominated for one in shortlist(make_card(), rows).selected)


def step(code, **parameters):
    return Template(code, code)(**parameters)


def to_confirm(offer, *steps):
    row = CriterionVerdict(criterion="memory", state="to_confirm", reasons=steps, settle=steps)
    return change(decision(offer, "to_confirm"), criteria=(row,))


CARD, ASK = step("decide.requirement-not-stated", field="margin"), step("decide.settle-ram", needed_bytes=1)
RUN, PILOT = step("decide.settle-measure"), step("decide.settle-durations-open")
OTHER, UNLISTED = step("decide.settle-no-time"), step("test.unlisted")


class TestSteps:
    # steps of the offer, the one to take first
    TABLE = [
        ([RUN, ASK, CARD], CARD),
        ([RUN, ASK], ASK),
        ([RUN, PILOT], PILOT),
        ([RUN], RUN),
        ([CARD, OTHER], OTHER),
        ([UNLISTED, PILOT], PILOT),
    ]

    @pytest.mark.parametrize("steps, first", TABLE)
    def test_the_least_work_comes_first(self, steps, first):
        found = steps_of([to_confirm("a", *steps)])
        following = found.next["a"]
        assert found.all[following.step].message == first
        assert following.steps == len(steps)

    def test_of_equal_work_what_most_offers_wait_for(self):
        other = step("decide.settle-storage", needed_bytes=2)
        found = steps_of([to_confirm("a", ASK, other), to_confirm("b", other), change(decision("c"), criteria=())])
        assert found.all[found.next["a"].step].message == other
        assert found.all[0].offers == 2
        assert "c" not in found.next

    def test_places_carry_it(self):
        summary = summarise(make_card(), [to_confirm("a", RUN, CARD), decision("z")])
        (place,) = summary.shortlist.lists[0].to_confirm
        assert summary.steps[place.next.step].effort is Effort.CARD
        assert summary.shortlist.selected[0].next is None

    def test_the_order_of_the_offers_changes_no_first_step(self):
        rows = [to_confirm("a", RUN, CARD), to_confirm("b", ASK, RUN), to_confirm("c", RUN)]
        expected = None
        for some in itertools.permutations(rows):
            found = steps_of(some)
            first = {offer: found.all[one.step].message for offer, one in found.next.items()}
            assert expected in (None, first)
            expected = first


@settings(max_examples=500, deadline=None)
@given(worlds)
def test_every_step_of_a_world_has_its_kind_of_work(world):
    """A step that nobody placed counts as a full run: a new template needs a row in `decide.effort`."""
    for row in judge_world(*world).criteria:
        for message in row.settle:
            assert message.code in EFFORTS or message.code.startswith("test."), message.code


def test_the_codes_of_the_table_exist():
    import capienza.decide.engine
    import capienza.predict.sizing  # noqa: F401

    assert sorted(set(EFFORTS) - set(TEMPLATES)) == []
    assert effort_of(UNLISTED) is Effort.FULL_RUN


HEAD = "capienza: 1\nname: x\nmodel: {id: a/b}\ntask: inference\n"


def test_a_card_states_the_order():
    card = parse_card(
        HEAD + "ranking: [{by: cost, within: 2 %}, {by: margin, within: 1 GiB}, {by: finish, within: 12 h}]\n"
    )
    assert card.ranking == TWO_PERCENT[:3]
    assert parse_card(HEAD).ranking == DEFAULT_ORDER
    assert parse_card(HEAD + "ranking: [{by: finish, within: 0.5 h}]\n").ranking == (rank("finish", "0.5", HOURS),)
