"""Ways to make the evidence say more than it shows: each is refused, doubted, or beyond a waiver."""

import pytest
from decide_world import (
    GIB,
    REPORTED,
    SCOPE,
    at,
    change,
    codes,
    judge,
    make_oom,
    make_quality,
    make_run,
    make_waiver,
    peaks,
    run_claims,
)

from capienza.errors import InputError
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal


def peak(**changes):
    fields = {"quantity": "peak_bytes", "value": 17 * GIB, "unit": "B", "phase": "decode", "counter": "device"}
    return Claim(**(fields | changes))


@pytest.mark.parametrize(
    "claim",
    [
        peak(value=17, unit="GiB"),
        peak(unit=None),
        peak(value=str(40 * GIB)),
        peak(counter="nvidia_smi"),
        peak(counter=None),
        peak(phase="decoding"),
        peak(value=0),
        peak(value=10**40),
        peak(value=10**5000),
        Claim(quantity="outcome", value="OOM"),
        Claim(quantity="outcome", value="Out_Of_Memory"),
        Claim(quantity="planned_runs", value="two"),
        Claim(quantity="planned_runs", value=0),
        Claim(quantity="context_bytes", value=1),
        Claim(quantity="truncated_inputs", value=10**40),
    ],
    ids=lambda claim: f"{claim.quantity}-{str(claim.value)[:12] if isinstance(claim.value, str) else 'n'}",
)
def test_a_claim_that_is_not_understood_is_refused(claim):
    others = () if claim.quantity == "outcome" else run_claims()
    with pytest.raises(InputError) as caught:
        make_run(claims=(*others, claim))
    assert caught.value.message.code == "evidence.claim-not-understood"
    str(caught.value)


def test_two_outcomes_in_one_record_are_refused():
    with pytest.raises(InputError):
        make_run(claims=(*run_claims(), Claim(quantity="outcome", value="failed")))


def test_a_reading_below_the_proved_floor_does_not_admit():
    verdict = judge(records=(make_run(claims=run_claims(measured=peaks(GIB))), make_quality())).criterion("memory")
    assert verdict.state == "to_confirm"
    assert "decide.memory-below-floor" in codes(verdict.reasons)


@pytest.mark.parametrize("method", ["attest", "compute", "examine"])
def test_only_what_was_measured_counts_as_measured(method):
    verdict = judge(records=(make_run(method=method), make_quality())).criterion("memory")
    assert verdict.state == "to_confirm"
    assert "decide.run-not-measured" in codes(verdict.reasons)


@pytest.mark.parametrize("run", [make_run(claims=run_claims(measured=peaks(REPORTED + 2 * GIB))), make_oom()])
def test_no_waiver_covers_more_than_the_card_has(run):
    decision = judge(records=(run, make_quality(), make_waiver("memory")))
    assert decision.state != "admissible"
    assert decision.criterion("memory").waiver is None


@pytest.mark.parametrize("changes", [{"notes": ("\u200b",)}, {"producer": {"author": "\u200b\u2060"}}])
def test_what_nobody_can_see_signs_nothing(changes):
    with pytest.raises(InputError):
        make_waiver("memory", **changes)


def plan(scope=SCOPE, **fields):
    base = {
        "kind": "plan",
        "version": "1",
        "date": at(1),
        "scope": scope,
        "claims": (Claim(quantity="planned_runs", value=2),),
    }
    return seal(Record(**(base | fields)))


OTHER = change(SCOPE, model="another/model")


@pytest.mark.parametrize(
    "announced, runs",
    [
        (plan(), [make_run()]),
        (plan(scope=Scope()), [make_run(inputs=(plan(scope=Scope()).id,))]),
        (plan(), [make_run(inputs=(plan().id,)), make_run(OTHER, inputs=(plan().id,))]),
        (plan(date=at(1, 2)), [make_run(inputs=(plan(date=at(1, 2)).id,)), make_run(date=at(1, 3))]),
    ],
    ids=["not cited", "cited", "filled with another model", "older than the plan"],
)
def test_a_planned_run_that_is_missing_keeps_the_others_from_admitting(announced, runs):
    verdict = judge(records=(announced, *runs, make_quality())).criterion("memory")
    assert verdict.state == "to_confirm"
    assert "evidence.plan-incomplete" in codes(verdict.reasons)


def test_all_the_planned_runs_admit():
    second = make_run(version="2")
    decision = judge(records=(plan(), make_run(), second, make_quality()))
    assert decision.criterion("memory").state == "admissible"
