"""What a folder of records as a whole does to a verdict: the cases in which a law of the decision was once broken."""

from __future__ import annotations

import pytest
from decide_world import (
    GOOD_RECORDS,
    SCOPE,
    at,
    change,
    codes,
    judge,
    make_document,
    make_oom,
    make_quality,
    make_run,
    make_waiver,
    run_claims,
)

from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal

HERE = Scope(offer="rtx4090-1x3d")


def plan(planned=2, scope=SCOPE, basis=None, **fields):
    claims = (Claim(quantity="planned_runs", value=planned, basis=basis),)
    return seal(Record(kind="plan", version="1", date=at(1), scope=scope, claims=claims, **fields))


def withdrawal(*records, **fields):
    signed = {"producer": {"author": "A. Engineer"}, "notes": ("the wrong card was measured",)}
    inputs = tuple(record.id for record in records)
    return seal(
        Record(**({"kind": "invalidates", "version": "1", "date": at(1, 2), "inputs": inputs} | signed | fields))
    )


BROKEN = (Claim(quantity="compatibility", value="violated"),)
FAILURES = {
    "workload": (run_claims(truncated=1), make_run()),
    "compatibility": (BROKEN, make_document()),
    "memory": ((Claim(quantity="outcome", value="out_of_memory", phase="decode"),), make_run()),
}


@pytest.mark.parametrize("scope", [SCOPE, Scope()], ids=["scoped", "unscoped"])
@pytest.mark.parametrize("criterion", FAILURES)
def test_a_planned_failure_left_out_admits_by_no_other_evidence(criterion, scope):
    """A document or a waiver would carry the criterion while the failed run is not there."""
    claims, support = FAILURES[criterion]
    announced = plan(1, scope)
    failed = make_run(claims=claims, inputs=(announced.id,))
    waiver = make_waiver(criterion)
    whole = [announced, failed, support if criterion == "compatibility" else waiver]
    assert judge(records=whole).criterion(criterion).state == "exclude"
    left = judge(records=[record for record in whole if record is not failed]).criterion(criterion)
    assert left.state == "to_confirm"
    assert "evidence.plan-lacks-runs" in codes(left.reasons)
    assert left.settle


def test_a_planned_result_left_out_is_not_waived():
    announced = plan(2)
    kept, gone = (make_quality(value, inputs=(announced.id,)) for value in ("satisfied", "violated"))
    records = [announced, kept, gone, make_waiver("quality")]
    assert judge(records=records).criterion("quality").state == "to_confirm"
    verdict = judge(records=[announced, kept, records[-1]]).criterion("quality")
    assert (verdict.state, verdict.waiver) == ("to_confirm", None)
    assert "decide.waiver-run-missing" in codes(verdict.reasons)


def test_a_plan_left_out_admits_nothing_that_its_runs_concern():
    announced = plan(2)
    run = make_run(inputs=(announced.id,))
    for records in ((announced, run, make_document()), (run, make_document())):
        assert judge(records=records).criterion("compatibility").state == "to_confirm"


@pytest.mark.parametrize(
    "scope", [change(SCOPE, gpu="l4"), change(SCOPE, model="another/model"), change(SCOPE, engine_version="0.11.3")]
)
def test_a_plan_about_something_else_holds_nothing_back(scope):
    assert judge(records=(*GOOD_RECORDS, plan(2, scope, "measurement"))).state == "admissible"


def test_a_plan_that_does_not_say_of_what_runs_may_be_of_quality():
    """A result of quality holds on every GPU, so one that was announced on another may be the one that failed."""
    decision = judge(records=(*GOOD_RECORDS, plan(2, change(SCOPE, gpu="l4"))))
    assert [row.criterion for row in decision.criteria if row.state == "to_confirm"] == ["quality"]


def test_a_plan_of_measured_runs_binds_no_result_of_quality():
    second = make_run(version="2")
    for basis, state in (("measurement", "admissible"), (None, "to_confirm")):
        records = (plan(2, basis=basis), make_run(), second, make_quality())
        assert judge(records=records).criterion("quality").state == state


def test_a_withdrawn_plan_announces_nothing():
    given_up = plan(2, change(SCOPE, tokens=None, concurrency=None))
    assert judge(records=(make_document(), given_up)).criterion("compatibility").state == "to_confirm"
    records = (make_document(), given_up, withdrawal(given_up))
    assert judge(records=records).criterion("compatibility").state == "admissible"


def test_a_plan_of_measurements_does_not_hold_quality_back():
    announced = plan(2, basis="measurement")
    runs = [make_run(inputs=(announced.id,))]
    decision = judge(records=(announced, *runs, make_quality()))
    assert decision.criterion("quality").state == "admissible"
    assert decision.criterion("memory").state == "to_confirm"


@pytest.mark.parametrize(
    "criterion, failure, support",
    [
        ("memory", make_oom(), make_run()),
        ("quality", make_quality("violated"), make_quality()),
        ("compatibility", make_run(claims=BROKEN), make_document()),
        ("placement", make_document("ram_bytes", 1, HERE, producer={"source": "contract"}), None),
        ("budget", make_document("starts_at", "2026-12-30T00:00:00Z", HERE, producer={"source": "contract"}), None),
    ],
)
def test_a_withdrawal_that_changes_a_verdict_is_told(criterion, failure, support):
    records = [failure, *([support] if support else [])]
    before = judge(records=records).criterion(criterion)
    after = judge(records=[*records, withdrawal(failure)]).criterion(criterion)
    assert before.state != "admissible"
    assert after.state == "admissible"
    told = [reason.parameters["record"] for reason in after.reasons if reason.code == "evidence.withdrawn"]
    assert told == [failure.id[:12]]


def test_a_withdrawal_that_changes_nothing_is_not_told():
    other = make_run(version="2")
    for name in ("memory", "workload"):
        verdict = judge(records=(*GOOD_RECORDS, other, withdrawal(other))).criterion(name)
        assert (verdict.state, "evidence.withdrawn" in codes(verdict.reasons)) == ("admissible", False)


def test_a_plan_that_takes_a_support_away_is_told():
    """The document excludes because the measured run, which outweighs it, belongs to a plan that lacks a run."""
    run, page = make_run(), make_document(value="violated")
    assert judge(records=(run, page)).criterion("compatibility").state == "admissible"
    verdict = judge(records=(run, page, plan(2))).criterion("compatibility")
    assert verdict.state == "exclude"
    told = [reason.parameters["record"] for reason in verdict.reasons if reason.code == "evidence.plan-incomplete"]
    assert told == [run.id[:12]]
