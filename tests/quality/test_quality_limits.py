"""The edges of what a card may ask: margins without sense, one item, ties, other alphabets."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from gate import answers, plan_for, written_corpus

from capienza.errors import InputErrors
from capienza.quality.compare import compare
from capienza.quality.corpus import read_corpus
from capienza.quality.lint import lint
from capienza.quality.plan import PlannedMetric


@pytest.mark.parametrize(
    "kind, margin, code",
    [
        ("numeric", "0", "quality.never-concludes"),
        ("chrf", "0", "quality.never-concludes"),
        ("numeric", "0.000001", "quality.margin-out-of-reach"),
        ("numeric", "0.01", "quality.cannot-conclude"),
        ("numeric", "1", "quality.margin-too-wide"),
        ("rouge_l", "5", "quality.margin-too-wide"),
    ],
)
def test_a_margin_that_shows_nothing_is_a_problem(tmp_path, kind, margin, code):
    corpus = written_corpus(tmp_path, 300)
    plan = plan_for(corpus, PlannedMetric(name="m", kind=kind, max_regression=Decimal(margin), reason="r"))
    assert [problem.code for problem in lint(plan, corpus).problems] == [code]


@pytest.mark.parametrize("alpha", ["0.0001", "0.2"])
@pytest.mark.parametrize("kind", ["numeric", "chrf"])
@pytest.mark.parametrize("count, word", [(1, "unknown"), (300, "satisfied")])
def test_ties_admit_no_more_than_their_number_shows(tmp_path, alpha, kind, count, word):
    corpus = written_corpus(tmp_path, count)
    metric = PlannedMetric(name="m", kind=kind, max_regression=Decimal("0.1"), reason="r")
    plan = plan_for(corpus, metric, alpha=Decimal(alpha))
    arms = {arm: answers(plan, arm) for arm in ("reference", "candidate")}
    result = compare(plan, corpus, arms).results[0]
    z2 = {"0.0001": 13.8311, "0.2": 0.70833}[alpha]
    assert result.state == word
    assert result.interval.lower == pytest.approx(-z2 / (count + z2), abs=1e-5)


def test_an_answer_in_which_rouge_sees_no_word_is_refused_before_freezing(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text(f"{json.dumps({'id': 'a', 'prompt': '?', 'expected': 'Пекин'})}\n")
    corpus = read_corpus(str(path))
    with pytest.raises(InputErrors, match="sees no word"):
        lint(plan_for(corpus, PlannedMetric(name="r", kind="rouge_l", max_regression=Decimal("0.1"))), corpus)
    lint(plan_for(corpus, PlannedMetric(name="c", kind="chrf", max_regression=Decimal("0.1"))), corpus)
