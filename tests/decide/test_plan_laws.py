"""Pilots, bounds and contingency in the decision: each state by hand, and the laws on random worlds."""

from __future__ import annotations

from decimal import Decimal

import pytest
from decide_strategies import LAW, PLAN, PLANS, truths, worlds
from decide_strategies import judge as judge_world
from decide_world import (
    GOOD_RECORDS,
    NOW,
    SCOPE,
    at,
    change,
    codes,
    judge,
    make_card,
    make_document,
    make_offer,
    make_run,
    make_waiver,
)
from hypothesis import assume, given
from hypothesis import strategies as st

from capienza.canon import canonical
from capienza.card.model import Budget, Calendar, LowerBound, Step
from capienza.catalog.offer import Price
from capienza.evidence.record import Claim, Scope
from capienza.evidence.standing import standing
from capienza.units import Money

TOKENS = 36_000_000
"""At 1000 tokens a second 10 hours, at 500 20, at 100 100."""


def pilot(*rates, scope=SCOPE, **fields):
    claims = tuple(Claim(quantity="tokens_per_second", value=str(rate), unit="tokens/s") for rate in rates)
    return make_run(scope, claims, **fields)


def calendar(*steps, **fields) -> Calendar:
    base = {"timezone": "UTC", "start": at(7), "deadline": at(12)}
    return Calendar(steps=steps or (Step(name="run", work_tokens=TOKENS),), **(base | fields))


def budget(*records, plan=None, offer=None, cap="300"):
    card = make_card(calendar=plan or calendar(), budget=Budget(cap=Money(Decimal(cap), "USD")))
    return judge(card=card, offer=offer, records=(*GOOD_RECORDS, *records)).criterion("budget")


def by_hour(**fields) -> Price:
    base = {
        "kind": "per_gpu_hour",
        "money": Money(Decimal(10), "USD"),
        "starts_at": at(7),
        "tax_included": True,
        "billing_step_s": 3600,
    }
    return Price(**(base | fields))


HOURLY = make_offer(price=by_hour())
FOR_A_DAY = make_offer(price=by_hour(max_hours=Decimal(24)))
BOUND = LowerBound(hours=Decimal(80), reason="36 million tokens at the peak of the data sheet")
STATES = [
    ("to_confirm", "plan.no-pilot", (), {}),
    ("admissible", "decide.window-enough", (pilot(1000, 900),), {}),
    ("admissible", "plan.one-run", (pilot(1000),), {}),
    ("exclude", "decide.window-short", (pilot(100, 110),), {}),
    ("to_confirm", "decide.window-tight", (pilot(1000, 100),), {}),
    ("to_confirm", "evidence.scope-differs", (pilot(1000, scope=change(SCOPE, gpu="l4")),), {}),
    ("to_confirm", "plan.record-at-another-load", (pilot(1000, scope=change(SCOPE, concurrency=8)),), {}),
    ("to_confirm", "evidence.plan-incomplete", (PLAN, pilot(1000, inputs=(PLAN.id,))), {}),
    ("to_confirm", "evidence.expired", (pilot(1000, expires=at(1, 2)),), {}),
    # 60 hours, and 20 % more than the 72 of the package
    ("admissible", "plan.own-word", (), {"plan": calendar(Step(name="a", hours=Decimal(60), basis="measured"))}),
    (
        "to_confirm",
        "decide.window-tight",
        (),
        {"plan": calendar(Step(name="a", hours=Decimal(61), basis="measured"), contingency_percent=Decimal(20))},
    ),
    (
        "admissible",
        "decide.window-enough-with-contingency",
        (),
        {"plan": calendar(Step(name="a", hours=Decimal(60), basis="measured"), contingency_percent=Decimal(20))},
    ),
    # a bound alone excludes, and confirms nothing
    ("exclude", "plan.bound-counts", (), {"plan": calendar(Step(name="a", hours=Decimal(90), at_least=BOUND))}),
    (
        "to_confirm",
        "decide.durations-hypothetical",
        (),
        {"plan": calendar(Step(name="a", hours=Decimal(70), at_least=change(BOUND, hours=Decimal(70))))},
    ),
    ("admissible", "plan.bound-broken", (pilot(1000),), {
        "plan": calendar(Step(name="a", work_tokens=TOKENS, at_least=BOUND)),
    }),
    # 60 hours go by: in 8 of each day they hold 24 hours of work at the best hour to begin, and 16 at the worst
    (
        "to_confirm",
        "decide.window-tight",
        (),
        {
            "plan": calendar(
                Step(name="a", hours=Decimal(20), basis="measured"), daily_hours=Decimal(8), deadline=at(9, 12)
            )
        },
    ),
    # money: 10 to 11.2 hours at 10 USD, and 100 hours
    ("admissible", "decide.cost-within", (pilot(1000, 900),), {"offer": HOURLY, "cap": "120"}),
    ("to_confirm", "decide.cost-open", (pilot(1000, 900),), {"offer": HOURLY, "cap": "119"}),
    ("exclude", "decide.cost-above", (pilot(1000, 900),), {"offer": HOURLY, "cap": "99"}),
    ("to_confirm", "decide.cost-beyond-term", (pilot(1000, 400),), {"offer": FOR_A_DAY}),
]  # fmt: skip


@pytest.mark.parametrize("state, code, records, world", STATES, ids=[f"{row[0]} {row[1]}" for row in STATES])
def test_each_state(state, code, records, world):
    row = budget(*records, **world)
    assert (row.state, code in codes(row.reasons)) == (state, True), codes(row.reasons)


def test_the_record_of_a_duration_is_cited():
    run = pilot(1000, 900)
    assert run.id in {ref.id for ref in budget(run).evidence}
    assert run.id in {ref.id for ref in budget(pilot(100), run).evidence}


def test_a_record_that_a_step_names_is_asked_for():
    step = Step(name="run", hours=Decimal(30), basis="measured", record="ab" * 6)
    row = budget(plan=calendar(step))
    assert row.state == "to_confirm"
    assert "plan.record-missing" in codes(row.reasons)
    proof = make_run(claims=(Claim(quantity="duration_hours", value="29.5", unit="h"),))
    assert budget(proof, plan=calendar(change(step, record=proof.id[:12]))).state == "admissible"


def test_a_document_about_one_offer_speaks_of_no_other():
    step = Step(name="move in", hours=Decimal(4), basis="documented")
    sheet = make_document("duration_hours", "4", Scope(offer="rtx4090-1x3d"), unit="h")
    plan = calendar(change(step, record=sheet.id))
    assert budget(sheet, plan=plan).state == "admissible"
    other = budget(sheet, plan=plan, offer=make_offer(id="another"))
    assert (other.state, "plan.record-elsewhere" in codes(other.reasons)) == ("to_confirm", True)


def test_what_is_named_leaves_room_for_contingency():
    """The hours that would settle a hypothetical plan settle it, with its contingency; a little more does not."""
    plan = calendar(Step(name="a", hours=Decimal(30)), contingency_percent=Decimal(25))
    for world, named in (({}, "57.6"), ({"offer": HOURLY, "cap": "300"}, "24")):
        row = budget(plan=plan, **world)
        (step,) = [step for step in row.settle if step.code == "decide.settle-durations"]
        assert step.parameters["available"] == named
        for more, state in ((Decimal(0), "admissible"), (Decimal(1), "to_confirm")):
            measured = Step(name="a", hours=Decimal(named) + more, basis="measured")
            found = budget(plan=change(plan, steps=(measured,)), **world)
            assert found.state == state, codes(found.reasons)


def is_pilot(record) -> bool:
    return any(claim.quantity == "tokens_per_second" for claim in record.claims)


plans = st.sampled_from(PLANS)
pilots = st.builds(
    lambda scope, inputs, rates: pilot(*rates, scope=scope, inputs=inputs),
    st.sampled_from([*[SCOPE] * 4, change(SCOPE, gpu="l4"), change(SCOPE, concurrency=8), change(SCOPE, offer="x")]),
    plans,
    st.lists(st.sampled_from([100, 150, 200, 500, 1000]), min_size=1, max_size=3),
)
fast_pilots = st.builds(lambda inputs: pilot(1000, inputs=inputs), plans)
calendars = st.builds(
    lambda steps, contingency, daily: calendar(*steps, contingency_percent=contingency, daily_hours=daily),
    st.lists(
        st.sampled_from(
            [
                Step(name="run", work_tokens=TOKENS),
                Step(
                    name="run",
                    work_tokens=TOKENS,
                    hours=Decimal(30),
                    at_least=LowerBound(hours=Decimal(30), reason="x"),
                ),
                Step(name="run", work_tokens=TOKENS, record=pilot(1000).id),
                Step(name="pack", hours=Decimal(2), basis="documented"),
                Step(name="guess", hours=Decimal(1)),
            ]
        ),
        min_size=1,
        max_size=2,
    ),
    st.sampled_from([None, Decimal(0), Decimal(20), Decimal(100)]),
    st.sampled_from([None, None, Decimal(12), Decimal(24)]),
)
planned_worlds = st.builds(
    lambda world, plan, more: (world[0]._replace(card=change(world[0].card, calendar=plan)), [*world[1], *more]),
    worlds,
    calendars,
    st.lists(pilots, max_size=3),
)


@LAW
@given(planned_worlds, fast_pilots)
def test_monotone(world, supporting):
    """Taking away a run that excludes nothing by itself never moves a verdict towards admissible."""
    scene, records = world
    assume(supporting.id not in standing([*records, supporting], NOW).weak)
    others = [record for record in records if not is_pilot(record)]
    if judge_world(scene, [*others, supporting]).criterion("budget").state == "exclude":
        return
    with_it = truths(judge_world(scene, [*records, supporting]))
    without = truths(judge_world(scene, [record for record in records if record.id != supporting.id]))
    for name, value in without.items():
        assert value.value <= with_it[name].value, name


@LAW
@given(planned_worlds, pilots)
def test_no_silent_flip(world, record):
    """One more run never turns a verdict into its opposite, unless it shows a bound to be wrong, and that is said."""
    scene, records = world
    before = judge_world(scene, records).criterion("budget")
    after = judge_world(scene, [*records, record]).criterion("budget")
    if {before.state, after.state} == {"admissible", "exclude"}:
        assert "plan.bound-broken" in codes(after.reasons) or before.waiver or after.waiver, (before, after)


@LAW
@given(planned_worlds, st.randoms())
def test_order_free_and_explained(world, random):
    scene, records = world
    decision = judge_world(scene, records)
    again = records * 2
    random.shuffle(again)
    assert canonical(judge_world(scene, again)) == canonical(decision)
    row = decision.criterion("budget")
    assert row.reasons or row.state == "admissible"
    assert row.settle or row.state != "to_confirm"
    for message in (*row.reasons, *row.settle):
        assert str(message)


@LAW
@given(planned_worlds, st.sampled_from([1, 20, 80]))
def test_more_contingency_never_helps_and_never_excludes(world, more):
    scene, records = world
    plan = scene.card.calendar
    higher = change(plan, contingency_percent=(plan.contingency_percent or 0) + more)
    before = judge_world(scene, records).criterion("budget")
    after = judge_world(scene._replace(card=change(scene.card, calendar=higher)), records).criterion("budget")
    assert not (after.state == "admissible" and before.state != "admissible")
    assert (after.state == "exclude") == (before.state == "exclude")


def test_a_waiver_may_let_a_hypothetical_duration_pass_and_no_missed_deadline():
    assert budget(make_waiver("budget")).state == "admissible"
    assert budget(make_waiver("budget"), pilot(100)).state == "exclude"


@pytest.mark.parametrize("source", ["catalogue", "contract", ""])
@pytest.mark.parametrize("start", ["2026-12-30T00:00:00Z", "2026-12-10T12:00:00+01:00"])
def test_hours_that_may_be_more_do_not_fall_back_on_a_weaker_date(source, start):
    """A later start of lower or equal rank excludes with more contingency only if it excluded without."""
    other = make_document("starts_at", start, Scope(offer="rtx4090-1x3d"), producer={"source": source})
    plan = calendar(Step(name="a", hours=Decimal(70), basis="measured"), deadline=at(12))
    before, after = (
        budget(other, plan=change(plan, contingency_percent=Decimal(more)), offer=HOURLY, cap="3000")
        for more in (0, 100)
    )
    assert (before.state == "exclude") == (after.state == "exclude")
    assert {"decide.conflict", "decide.overridden"} & {*codes(after.reasons)} or after.state == "exclude"
