"""From answers to a word: what counts as wrong, what is left out, what the controls must show."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from gate import NUMERIC, answers, plan_for, written_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import CapienzaError, InputErrors
from capienza.quality.answers import Answer
from capienza.quality.compare import Comparison, compare
from capienza.quality.corpus import Corpus
from capienza.quality.plan import PlannedMetric, QualityPlan
from capienza.quality.tango import interval
from capienza.quality.verdict import judge

pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return written_corpus(tmp_path_factory.mktemp("corpus"), 400)


def _compared(plan: QualityPlan, corpus: Corpus, wrong: int = 0, **arms: object) -> Comparison:
    given = {
        "reference": answers(plan, "reference"),
        "candidate": answers(plan, "candidate", wrong),
        "reference_again": answers(plan, "reference_again"),
        "harmed": answers(plan, "harmed", 200),
    } | arms
    return compare(plan, corpus, {arm: found for arm, found in given.items() if found is not None})  # type: ignore[misc]


@pytest.mark.parametrize("wrong, word", [(0, "satisfied"), (3, "satisfied"), (10, "unknown"), (40, "violated")])
def test_three_answers(corpus: Corpus, wrong: int, word: str) -> None:
    found = _compared(plan_for(corpus), corpus, wrong)
    assert found.words == {"numeric": word}
    assert found.results[0].interval == pytest.approx(interval(400, 0, wrong, 0.025))
    assert (found.results[0].gain, found.results[0].loss) == (0, wrong)


@pytest.mark.parametrize(
    "instead, field",
    [
        (None, "missing"),
        (Answer(item="q9", refused="too long"), "missing"),
        (Answer(item="q9", output="10", finish_reason="length"), "truncated"),
        (Answer(item="q9", output="10", is_prompt_cut=True), "truncated"),
        (Answer(item="q9", output="no idea"), "unparsable"),
    ],
)
def test_what_cannot_be_judged_is_wrong_of_the_candidate_and_left_out_of_the_reference(
    corpus: Corpus, instead: Answer | None, field: str
) -> None:
    plan = plan_for(corpus)
    worse = _compared(plan, corpus, candidate=answers(plan, "candidate", instead={"q9": instead})).results[0]
    assert (worse.items, worse.loss, getattr(worse.of_candidate, field)) == (400, 1, 1)
    less = _compared(plan, corpus, reference=answers(plan, "reference", instead={"q9": instead})).results[0]
    assert (less.items, less.loss, getattr(less.of_reference, field)) == (399, 0, 1)


def test_too_many_items_without_a_reference_answer_conclude_nothing(corpus: Corpus) -> None:
    plan = plan_for(corpus)
    missing = dict.fromkeys([f"q{n}" for n in range(41)])
    found = _compared(plan, corpus, reference=answers(plan, "reference", instead=missing))
    assert found.words["numeric"] == "unknown" or found.doubts
    assert "quality.reference-answers-too-few" in [reason.code for reason in found.results[0].reasons]


def test_every_threshold_must_be_met(corpus: Corpus) -> None:
    both = msgspec.structs.replace(NUMERIC, min=Decimal("0.999"))
    assert judge(both, corpus, *_two(corpus, 0), 0.025, 1).state == "unknown"
    assert (
        judge(msgspec.structs.replace(both, min=Decimal("0.98")), corpus, *_two(corpus, 0), 0.025, 1).state
        == "satisfied"
    )
    assert (
        judge(msgspec.structs.replace(both, min=Decimal("0.98")), corpus, *_two(corpus, 40), 0.025, 1).state
        == "violated"
    )


def _two(corpus: Corpus, wrong: int):  # type: ignore[no-untyped-def]
    plan = plan_for(corpus)
    return answers(plan, "reference"), answers(plan, "candidate", wrong)


@pytest.mark.parametrize(
    "arms, code",
    [
        ({"reference_again": None}, "quality.control-missing"),
        ({"harmed": None}, "quality.control-missing"),
        ({"reference_again": 40}, "quality.reference-differs-from-itself"),
        ({"harmed": 2}, "quality.harmed-control-passes"),
    ],
)
def test_a_control_that_misbehaves_leaves_nothing_that_counts(
    corpus: Corpus, arms: dict[str, int | None], code: str
) -> None:
    plan = plan_for(corpus)
    given = {arm: None if wrong is None else answers(plan, arm, wrong) for arm, wrong in arms.items()}  # type: ignore[arg-type]
    found = _compared(plan, corpus, 0, **given)
    assert [doubt.code for doubt in found.doubts] == [code]
    assert found.words == {"numeric": "insufficient"}


def test_a_reference_that_is_cut_short_is_not_said_to_differ_from_itself(corpus: Corpus) -> None:
    plan = plan_for(corpus)
    cut = {f"q{n}": Answer(item=f"q{n}", output="1", finish_reason="length") for n in range(41)}
    given = {
        "reference": answers(plan, "reference", instead=cut),
        "reference_again": answers(plan, "reference_again", instead=cut),
    }
    assert [doubt.code for doubt in _compared(plan, corpus, **given).doubts] == ["quality.reference-repeats-unknown"]
    given["reference_again"] = answers(plan, "reference_again", 200, instead=cut)
    assert [doubt.code for doubt in _compared(plan, corpus, **given).doubts] == [
        "quality.reference-differs-from-itself"
    ]


def test_outputs_that_predate_the_plan_or_stand_in_for_two_arms(corpus: Corpus) -> None:
    plan = plan_for(corpus)
    early = answers(plan, "candidate", date="2026-11-30T11:59:00Z")
    assert [doubt.code for doubt in _compared(plan, corpus, candidate=early).doubts] == ["quality.outputs-before-plan"]
    again = msgspec.structs.replace(answers(plan, "reference_again"), file="reference.jsonl")
    assert "quality.same-file-twice" in [doubt.code for doubt in _compared(plan, corpus, reference_again=again).doubts]


def test_prompts_of_another_length_mean_another_template(corpus: Corpus) -> None:
    plan = plan_for(corpus)
    ours = answers(plan, "reference", instead={"q0": Answer(item="q0", output="1", prompt_tokens=9)})
    theirs = answers(plan, "candidate", instead={"q0": Answer(item="q0", output="1", prompt_tokens=7)})
    found = _compared(plan, corpus, reference=ours, candidate=theirs)
    assert [doubt.code for doubt in found.doubts] == ["quality.prompts-differ"]


def test_outputs_of_another_plan_arm_or_item_are_refused(corpus: Corpus) -> None:
    plan = plan_for(corpus)
    for wrong, code in (
        (answers(plan_for(corpus, name="other"), "candidate"), "quality.outputs-of-another-plan"),
        (answers(plan, "harmed"), "quality.outputs-of-another-arm"),
    ):
        with pytest.raises(InputErrors) as caught:
            _compared(plan, corpus, candidate=wrong)
        assert caught.value.message.code == code
    stranger = answers(plan, "candidate")
    stranger.by_item["zz"] = Answer(item="zz", output="1")
    with pytest.raises(InputErrors) as caught:
        _compared(plan, corpus, candidate=stranger)
    assert caught.value.message.code == "quality.unknown-item"


def test_a_changed_corpus_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    plan = plan_for(corpus)
    other = written_corpus(tmp_path, 399)
    with pytest.raises(CapienzaError) as caught:
        _compared(plan, other)
    assert caught.value.message.code == "quality.corpus-changed"
    assert caught.value.exit_code == 20


def test_items_of_one_document_count_as_fewer(tmp_path: Path) -> None:
    alone = written_corpus(tmp_path, 400)
    single = judge(NUMERIC, alone, *_two(alone, 4), 0.025, 1)
    grouped = written_corpus(tmp_path, 400, each=4)
    four = judge(NUMERIC, grouped, *_two(grouped, 4), 0.025, 1)
    assert (single.design_effect, four.design_effect) == (1, 4)
    assert single.interval
    assert four.interval
    assert four.interval.lower < single.interval.lower
    assert four.interval == pytest.approx(interval(100, 0, 1, 0.025))


KL = PlannedMetric(name="kl", kind="kl", max_regression=Decimal("0.05"))


def _with_kl(plan: QualityPlan, value: float | None):  # type: ignore[no-untyped-def]
    figures = {
        identity: Answer(item=identity, output="x", kl=None if value is None else value + 0.0001 * (n % 7))
        for n, (identity, _) in enumerate(plan.corpus.items)
    }
    return answers(plan, "candidate", instead=figures)


@pytest.mark.parametrize(
    "value, state", [(0.01, "no_alarm"), (0.2, "violated"), (0.04971, "unknown"), (None, "unknown")]
)
def test_a_divergence_alarms_and_never_admits(corpus: Corpus, value: float | None, state: str) -> None:
    plan = plan_for(corpus, NUMERIC, KL)
    result = judge(KL, corpus, answers(plan, "reference"), _with_kl(plan, value), 0.025, 1)
    assert result.state == state


LOGPROB = PlannedMetric(name="logprob", kind="logprob", max_regression=Decimal("0.05"))


def test_a_missing_log_probability_leaves_the_result_open(corpus: Corpus) -> None:
    plan = plan_for(corpus, LOGPROB)
    ours = {i: Answer(item=i, output="x", logprob=-1 - 0.001 * n) for n, (i, _) in enumerate(plan.corpus.items)}
    theirs = {
        i: Answer(item=i, output="x", logprob=-1.001 - 0.001 * n + 0.0001 * (n % 3))
        for n, (i, _) in enumerate(plan.corpus.items)
    }
    two = answers(plan, "reference", instead=ours), answers(plan, "candidate", instead=theirs)
    assert judge(LOGPROB, corpus, *two, 0.025, 1).state == "satisfied"
    two[1].by_item["q7"] = Answer(item="q7", output="x")
    found = judge(LOGPROB, corpus, *two, 0.025, 1)
    assert (found.state, [reason.code for reason in found.reasons]) == ("unknown", ["quality.figures-missing"])


@settings(max_examples=60)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 20))
def test_fewer_right_answers_never_help(wrong: int, more: int, missing: int) -> None:
    """A candidate that loses items it had right never comes nearer to being satisfied."""
    order = {"violated": 0, "unknown": 1, "satisfied": 2}
    corpus = _KEPT
    plan = plan_for(corpus)
    gone = dict.fromkeys([f"q{399 - n}" for n in range(missing)])
    before = judge(NUMERIC, corpus, answers(plan, "reference"), answers(plan, "candidate", wrong), 0.025, 1)
    after = judge(
        NUMERIC, corpus, answers(plan, "reference"), answers(plan, "candidate", wrong + more, instead=gone), 0.025, 1
    )
    assert order[after.state] <= order[before.state]


@pytest.fixture(autouse=True, scope="module")
def _keep(corpus: Corpus) -> None:
    global _KEPT
    _KEPT = corpus
