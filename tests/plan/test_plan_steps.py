"""What the duration of a step rests on: the card's own word, a record, a pilot's rate, a bound, or nothing."""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.card.model import Calendar, LowerBound, Step
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.standing import standing
from capienza.evidence.store import seal
from capienza.plan.hours import Hours
from capienza.plan.steps import plan_of

NOW = datetime.datetime(2026, 12, 1, 9, tzinfo=datetime.UTC)
NEED = Scope(model="a/b", revision="r", engine="vllm", gpu="l4", gpus=1, tokens=8192, concurrency=4)
change = msgspec.structs.replace


def record(*claims, scope=NEED, **fields) -> Record:
    base = {"kind": "measurement", "version": "1", "date": NOW, "method": "measure", "scope": scope, "claims": claims}
    return seal(Record(**(base | fields)))


def rate(value, unit="tokens/s", **fields) -> Claim:
    return Claim(quantity="tokens_per_second", value=value, unit=unit, **fields)


def took(value, step=None, unit="h") -> Claim:
    return Claim(quantity="duration_hours", value=value, unit=unit, basis=step)


def planned(*steps, records=(), needs=(NEED,), **calendar):
    return plan_of(Calendar(steps=steps, **calendar), standing(records, NOW), needs)


def one(step, *records, **more):
    """The one step of a plan: least, planned, basis, and the codes beside it."""
    (found,) = planned(step, records=records, **more).steps
    codes = [message.code.removeprefix("plan.") for message in (*found.reasons, *found.notes)]
    return (f"{found.least:f}", found.planned and f"{found.planned:f}", found.basis, codes)


WORK = Step(name="run", work_tokens=36_000_000)
"""At 100 tokens a second 100 hours, at 125 80."""


def test_hours_of_a_plan():
    steps = (
        Step(name="pilot", hours=Decimal(2), basis="measured"),
        Step(name="data", hours=Decimal("1.5"), basis="documented"),
        Step(name="run", hours=Decimal(30)),
    )
    assert planned(*steps).hours == Hours(least=Decimal("3.5"), planned=Decimal("33.5"), is_stated=True)
    assert planned(*steps[:2]).hours == Hours(
        least=Decimal("3.5"), planned=Decimal("3.5"), is_stated=True, is_documented=True
    )
    assert planned().hours == plan_of("none").hours == plan_of(None).hours == Hours()
    assert not Hours().is_documented


def test_contingency_enters_the_planned_hours_and_no_proved_ones():
    steps = (Step(name="run", hours=Decimal(30), basis="measured"), Step(name="rest", hours=Decimal(10)))
    hours = planned(*steps, contingency_percent=Decimal(20)).hours
    assert (hours.least, hours.planned) == (30, 48)


def test_the_cards_own_word_counts_and_says_so():
    assert one(Step(name="run", hours=Decimal(30), basis="measured")) == ("30", "30", "measured", ["own-word"])
    assert one(Step(name="run", hours=Decimal(30))) == ("0", "30", "hypothetical", [])


@pytest.mark.parametrize(
    "claims, hours, expected",
    [
        ([took("30")], None, ("30", "30", "measured", [])),
        ([took("28"), took("33")], None, ("28", "33", "measured", [])),
        ([took("28"), took("33")], 30, ("28", "33", "measured", ["longer-than-the-card-says"])),
        ([took("28"), took("33")], 40, ("28", "40", "measured", [])),
        ([took("28", "run"), took("1", "load")], 30, ("28", "30", "measured", [])),
        ([took("1", "load")], 30, ("0", "30", "hypothetical", ["record-without-duration"])),
        ([took("1", "load")], None, ("0", None, "hypothetical", ["record-without-duration", "no-hours"])),
        ([took("30", unit="days")], 30, ("0", "30", "hypothetical", ["claim-unreadable"])),
        ([took("0")], 30, ("0", "30", "hypothetical", ["claim-unreadable"])),
        ([took("about 30")], 30, ("0", "30", "hypothetical", ["claim-unreadable"])),
        ([took("-3")], 30, ("0", "30", "hypothetical", ["claim-unreadable"])),
    ],
)
def test_a_record_is_asked_what_it_states(claims, hours, expected):
    proof = record(*claims)
    step = Step(name="run", hours=hours and Decimal(hours), basis="measured", record=proof.id[:12])
    assert one(step, proof) == expected


@pytest.mark.parametrize(
    "claims, expected",
    [
        (["100"], ("100", "100", "measured", ["one-run"])),
        (["100", "125"], ("80", "100", "measured", [])),
        ([100, "125.0"], ("80", "100", "measured", [])),
        (["0"], ("0", None, "hypothetical", ["claim-unreadable", "no-hours"])),
        (["0.000000001"], ("0", None, "hypothetical", ["claim-unreadable", "no-hours"])),
        (["1e3"], ("0", None, "hypothetical", ["claim-unreadable", "no-hours"])),
        ([], ("0", None, "hypothetical", ["no-pilot", "no-hours"])),
    ],
)
def test_work_at_the_rate_of_a_pilot(claims, expected):
    records = [record(*map(rate, claims))] if claims else []
    assert one(WORK, *records) == expected


def test_the_slowest_of_several_runs_has_to_fit_and_the_fastest_is_the_least():
    runs = [record(rate(value)) for value in ("100", "125", "80")]
    assert one(WORK, *runs) == ("80", "125", "measured", [])
    assert [found.id for found in planned(WORK, records=runs).records] == sorted(run.id for run in runs)


def test_a_run_of_a_plan_that_lacks_one_proves_nothing_and_is_not_forgotten():
    complete, lonely = record(rate("100"), rate("125")), record(rate("50"), rate("200"), inputs=("f" * 64,))
    assert one(WORK, lonely)[:3] == ("0", None, "hypothetical")
    assert one(WORK, complete, lonely) == ("80", "200", "measured", ["evidence.reference-missing"])


def test_beside_work_hours_are_the_guess_that_a_pilot_replaces():
    step = change(WORK, hours=Decimal(300))
    assert one(step) == ("0", "300", "hypothetical", ["no-pilot"])
    assert one(step, record(rate("100"), rate("125"))) == ("80", "100", "measured", [])


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"scope": change(NEED, gpu="h100_sxm")}, "evidence.scope-differs"),
        ({"scope": change(NEED, engine=None)}, "evidence.scope-unstated"),
        ({"scope": change(NEED, concurrency=2)}, "evidence.scope-smaller"),
        ({"scope": change(NEED, concurrency=64)}, "record-at-another-load"),
        ({"scope": change(NEED, tokens=16384)}, "record-at-another-load"),
        ({"method": "attest"}, "record-of-another-kind"),
        ({"expires": NOW}, "evidence.expired"),
        ({"date": NOW + datetime.timedelta(days=1)}, "evidence.from-the-future"),
        ({"inputs": ("f" * 64,)}, "evidence.reference-missing"),
    ],
)
def test_a_speed_holds_only_where_it_was_measured(fields, code):
    run = record(rate("100"), rate("125"), **fields)
    assert one(WORK, run) == ("0", None, "hypothetical", [code, "no-hours"])
    named = change(WORK, record=run.id)
    assert one(named, run) == ("0", None, "hypothetical", [code, "no-hours"])


def test_the_name_of_a_record_must_find_one():
    first, second = (record(took("30"), notes=(note,)) for note in ("a", "b"))
    step = Step(name="run", hours=Decimal(30), basis="measured", record=first.id[:12])
    assert one(step, second) == ("0", "30", "hypothetical", ["record-missing"])
    both = change(step, record="")  # the card refuses fewer than eight characters
    named = change(both, record="0123456789ab")
    assert one(named, first, second)[3] == ["record-missing"]
    twins = [change(record(took("30")), id=end.join(("ab" * 31, ""))[:62] + end) for end in ("01", "02")]
    assert one(change(step, record="ab" * 6), *twins) == ("0", "30", "hypothetical", ["record-ambiguous"])


def test_other_runs_that_name_the_step_stand_beside_the_one_that_the_card_names():
    """The named run was made on one GPU; the step takes its hours on each other from a run there."""
    other = change(NEED, gpu="a10")
    named, there = record(took("30")), record(took("40", "run"), scope=other)
    step = Step(name="run", basis="measured", record=named.id)
    assert one(step, named, there, needs=(NEED,))[:3] == ("30", "30", "measured")
    assert one(step, named, there, needs=(other,))[:3] == ("40", "40", "measured")
    assert one(step, named, there, needs=(NEED, other))[:3] == ("30", "40", "measured")
    unnamed, of_another_step = record(took("40"), scope=other), record(took("40", "load"), scope=other)
    assert one(step, named, unnamed, of_another_step, needs=(other,))[2] == "hypothetical"
    attested = record(took("40", "run"), scope=other, method="attest")
    assert one(step, named, attested, needs=(other,))[2] == "hypothetical"
    assert one(step, there, needs=(other,)) == ("0", None, "hypothetical", ["record-missing", "no-hours"])


def test_a_document_proves_a_documented_duration_unless_it_speaks_of_something_else():
    step = Step(name="move in", hours=Decimal(4), basis="documented", record="")

    def seen(scope, kind="document", need=NEED):
        sheet = record(took("4"), scope=scope, kind=kind, method="examine")
        return one(change(step, record=sheet.id), sheet, needs=(need,))

    proved = ("4", "4", "documented", [])
    assert seen(Scope()) == seen(Scope(gpu="l4")) == seen(Scope(gpu="any")) == seen(Scope(), "plan") == proved
    assert seen(Scope(gpu="h100_sxm"))[2:] == ("hypothetical", ["evidence.scope-differs"])
    assert seen(Scope(offer="x"))[2:] == ("hypothetical", ["record-elsewhere"])
    assert seen(Scope(offer="x"), need=change(NEED, offer="x")) == proved
    assert seen(Scope(provider="p"), need=change(NEED, provider="q"))[2:] == ("hypothetical", ["record-elsewhere"])
    assert seen(NEED, "measurement")[2:] == ("hypothetical", ["record-of-another-kind"])


def test_every_gpu_that_the_name_may_mean_has_to_be_covered():
    other = change(NEED, gpu="a10")
    fast, slow = record(rate("200"), rate("250")), record(rate("100"), rate("125"), scope=other)
    assert one(WORK, fast, needs=(NEED, other))[2] == "hypothetical"
    assert one(WORK, fast, slow, needs=(NEED, other))[:3] == ("40", "100", "measured")


BOUND = LowerBound(hours=Decimal(90), reason="4 TB over 1 Gbit/s")


def test_a_physical_bound_raises_the_least_and_confirms_nothing():
    step = Step(name="run", hours=Decimal(100), at_least=BOUND)
    assert one(step) == ("90", "100", "hypothetical", ["bound-counts"])
    assert one(change(step, basis="documented")) == ("100", "100", "documented", ["own-word"])
    assert one(change(WORK, at_least=BOUND)) == ("90", None, "hypothetical", ["no-pilot", "no-hours", "bound-counts"])
    assert one(change(WORK, at_least=BOUND), record(rate("100"), rate("125"))) == (
        "80", "100", "measured", ["bound-broken"],
    )  # fmt: skip
    below = Step(name="run", hours=Decimal(20), at_least=BOUND)  # a card may not say this
    assert one(below)[:2] == ("90", "90")


rates = st.lists(st.integers(1, 10**6), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(rates, st.integers(1, 10**12), st.integers(0, 100), st.randoms())
def test_more_runs_only_widen_and_their_order_changes_nothing(values, work, contingency, random):
    step = Step(name="run", work_tokens=work)
    runs = [record(rate(value), notes=(str(index),)) for index, value in enumerate(values)]
    calendar = {"contingency_percent": Decimal(contingency)}
    all_hours = planned(step, records=runs, **calendar).hours
    fewer = planned(step, records=runs[:1], **calendar).hours
    assert all_hours.least <= fewer.least <= fewer.planned <= all_hours.planned
    shuffled = [*runs]
    random.shuffle(shuffled)
    assert planned(step, records=shuffled, **calendar) == planned(step, records=runs, **calendar)
    slowest = Decimal(work) / min(values) / 3600
    assert abs(all_hours.planned - slowest * (100 + contingency) / 100) < Decimal("1e-15") * all_hours.planned + 1
