"""A quality result and its plan: order proved by reference, corpus and thresholds fixed before, no format for free."""

from __future__ import annotations

import pytest
from decide_world import (
    CORPUS,
    QUALITY_PLAN,
    SCOPE,
    at,
    change,
    codes,
    judge,
    make_quality,
    make_run,
    make_sizing,
    make_waiver,
)

from capienza.evidence.record import Claim, Record, Subject
from capienza.evidence.store import seal

OTHER = (Subject(name="eval.jsonl", sha256="f" * 64),)


def claim(basis):
    return (Claim(quantity="exact_match", value="planned", basis=basis),)


def make_plan(**fields) -> Record:
    base = {"kind": "plan", "version": "2", "date": at(1), "subject": CORPUS, "claims": claim("min=0.82")}
    return seal(Record(**(base | fields)))


def result(plan: Record | None, value="satisfied", **fields) -> Record:
    made = make_quality(value, **fields)
    return seal(change(made, inputs=() if plan is None else (plan.id,), id="", sha256=""))


def quality(*records, **world):
    return judge(records=(make_run(), *records), **world).criterion("quality")


PLANS = [
    ("admissible", None, make_plan()),
    ("to_confirm", "decide.plan-other-thresholds", make_plan(claims=())),
    ("to_confirm", "decide.plan-other-thresholds", make_plan(claims=claim("min=0.7"))),
    ("to_confirm", "decide.plan-without-corpus", make_plan(subject=())),
    ("to_confirm", "decide.quality-corpus-changed", make_plan(subject=OTHER)),
    ("to_confirm", "decide.quality-before-plan", make_plan(date=at(1, 2))),
]


@pytest.mark.parametrize("state, code, plan", PLANS)
def test_what_a_plan_must_be(state, code, plan):
    verdict = quality(plan, result(plan))
    assert verdict.state == state
    assert code is None or code in codes(verdict.reasons)


def test_no_plan_no_support_but_a_failure_stays_one():
    verdict = quality(result(None))
    assert (verdict.state, "decide.quality-without-plan" in codes(verdict.reasons)) == ("to_confirm", True)
    assert quality(result(None, "violated")).state == "exclude"


def test_another_plan_in_the_set_is_not_the_one_of_the_result():
    assert quality(make_plan(), result(None)).state == "to_confirm"


def test_a_plan_that_is_away_or_withdrawn_supports_nothing():
    plan = make_plan()
    away = quality(result(plan))
    assert (away.state, "evidence.reference-missing" in codes(away.reasons)) == ("to_confirm", True)
    withdrawal = seal(
        Record(
            kind="invalidates", version="1", date=at(1), inputs=(plan.id,), producer={"author": "A"}, notes=("wrong",)
        )
    )
    gone = quality(plan, result(plan), withdrawal)
    assert (gone.state, "decide.quality-without-plan" in codes(gone.reasons)) == ("to_confirm", True)


def test_one_good_plan_of_two_is_enough():
    good, bad = make_plan(), make_plan(subject=OTHER)
    both = seal(change(make_quality(), inputs=(good.id, bad.id), id="", sha256=""))
    assert quality(good, bad, both).state == "admissible"


def test_a_waiver_covers_what_is_open_and_no_failure():
    waiver = make_waiver("quality")
    waived = quality(result(None), waiver)
    assert (waived.state, waived.waiver is not None) == ("admissible", True)
    assert quality(result(None, "violated"), waiver).state == "exclude"


class TestFormats:
    SIZING = make_sizing(stored_weight_format="bf16", kv_format="bf16", model_kv_format="bf16")
    HERE = change(SCOPE, kv_format="bf16")

    def test_the_reference_is_not_admitted_for_free(self):
        verdict = quality(sizing=self.SIZING)
        assert verdict.state == "to_confirm"
        assert "decide.quality-reference" in codes(verdict.reasons)
        assert quality(result(QUALITY_PLAN, scope=self.HERE), sizing=self.SIZING).state == "admissible"

    @pytest.mark.parametrize(
        "changed, code",
        [
            ({"weight_format": "int4"}, "decide.quality-changed-weights"),
            ({"kv_format": "fp8_e4m3"}, "decide.quality-changed-cache"),
        ],
    )
    def test_a_changed_format_needs_its_own_result(self, changed, code):
        sizing = change(self.SIZING, **changed)
        reference = result(QUALITY_PLAN, scope=self.HERE)
        verdict = quality(reference, sizing=sizing)
        assert (verdict.state, code in codes(verdict.reasons)) == ("to_confirm", True)
        assert "evidence.scope-differs" in codes(verdict.reasons)
        own = result(QUALITY_PLAN, scope=change(self.HERE, **changed))
        assert quality(own, sizing=sizing).state == "admissible"

    def test_another_engine_version_needs_its_own_result(self):
        verdict = quality(result(QUALITY_PLAN, scope=change(SCOPE, engine_version="0.12.0")))
        assert (verdict.state, "evidence.scope-differs" in codes(verdict.reasons)) == ("to_confirm", True)

    def test_nothing_is_said_where_the_published_format_is_not_known(self):
        found = codes(quality(sizing=make_sizing()).reasons)
        assert not {"decide.quality-reference", "decide.quality-changed-weights"} & set(found)
