"""Log-probabilities of a server: both of its forms, the bound of KL against the KL itself, and what is missing."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest
from gate import NUMERIC, answers, plan_for, written_corpus
from hypothesis import given
from hypothesis import strategies as st

from capienza.quality.answers import Answer
from capienza.quality.compare import compare
from capienza.quality.endpoint import read_completion
from capienza.quality.logprobs import asked_for, distances, first_token, missing, of_expected
from capienza.quality.plan import PlannedMetric

pytest.importorskip("numpy")

KL = PlannedMetric(name="kl", kind="kl", max_regression=Decimal("0.05"))
LIKELIEST = [{"token": "4", "logprob": -0.1}, {"token": " four", "logprob": -2.4}]
CHAT = {"content": [{"token": "4", "logprob": -0.1, "top_logprobs": LIKELIEST}]}
BARE = {"tokens": ["4"], "token_logprobs": [-0.1], "top_logprobs": [{"4": -0.1, " four": -2.4}]}


@pytest.mark.parametrize("given_by", [CHAT, BARE])
def test_both_forms_are_read(given_by: dict[str, object]) -> None:
    assert first_token({"logprobs": given_by}) == {"4": -0.1, " four": -2.4}


@pytest.mark.parametrize(
    "choice", [{}, {"logprobs": None}, {"logprobs": {"content": []}}, {"logprobs": {"top_logprobs": [None]}}]
)
def test_a_server_without_them_gives_none(choice: dict[str, object]) -> None:
    assert first_token(choice) is None


def test_a_completion_with_broken_ones_is_garbage_not_a_traceback() -> None:
    data = json.dumps({"choices": [{"text": "4", "logprobs": {"top_logprobs": [{"4": "likely"}]}}]}).encode()
    with pytest.raises(Exception, match="no completion"):
        read_completion("q", data, is_chat=False)


def test_the_accepted_answer_of_one_token() -> None:
    assert of_expected({" four": -2.4, "4": -0.1}, ("four",)) == -2.4
    assert of_expected({"5": -0.1}, ("four",)) is None
    assert of_expected(None, ("four",)) is None


def test_they_are_asked_for_where_a_metric_needs_them(tmp_path: Path) -> None:
    corpus = written_corpus(tmp_path, 3)
    assert asked_for(plan_for(corpus, NUMERIC), is_chat=True) == {}
    assert asked_for(plan_for(corpus, NUMERIC, KL), is_chat=True) == {"logprobs": True, "top_logprobs": 20}
    assert asked_for(plan_for(corpus, NUMERIC, KL), is_chat=False) == {"logprobs": 5}


_WEIGHTS = st.lists(st.floats(0.001, 1), min_size=8, max_size=8)


@given(_WEIGHTS, _WEIGHTS, st.integers(1, 8))
def test_the_bound_is_never_above_kl_and_reaches_it_with_all_tokens(
    first: list[float], second: list[float], most: int
) -> None:
    p = {str(k): math.log(weight / sum(first)) for k, weight in enumerate(first)}
    q = {str(k): math.log(weight / sum(second)) for k, weight in enumerate(second)}
    whole = sum(math.exp(p[k]) * (p[k] - q[k]) for k in p)
    likeliest = [dict(sorted(each.items(), key=lambda pair: -pair[1])[:most]) for each in (p, q)]
    found, same = distances(*likeliest)
    assert -1e-9 <= found <= whole + 1e-9
    if most == 8:
        assert found == pytest.approx(whole, abs=1e-9)
    assert same == float(max(p, key=p.__getitem__) == max(q, key=q.__getitem__))


def test_an_arm_far_from_the_reference_raises_the_alarm_and_is_said_to_be_bounded(tmp_path: Path) -> None:
    corpus = written_corpus(tmp_path)
    plan = plan_for(corpus, NUMERIC, KL)

    def with_top(arm: str, share: list[float], wrong: int = 0) -> object:
        plain = answers(plan, arm, wrong)  # type: ignore[arg-type]
        given_by = {
            item: Answer(
                item=item,
                output=answer.output,
                top={"x": math.log(share[k % 2]), "y": math.log(1 - share[k % 2])},
            )
            for k, (item, answer) in enumerate(plain.by_item.items())
        }
        return answers(plan, arm, instead=given_by)  # type: ignore[arg-type]

    arms = {
        "reference": with_top("reference", [0.9, 0.8]),
        "reference_again": with_top("reference_again", [0.9, 0.8]),
        "candidate": with_top("candidate", [0.4, 0.35]),
        "harmed": with_top("harmed", [0.1, 0.2], 100),
    }
    found = compare(plan, corpus, arms)  # type: ignore[arg-type]
    assert found.words["kl"] == "violated"
    assert "quality.kl-is-a-lower-bound" in {finding.code for finding in found.findings}


def test_answers_without_them_are_counted(tmp_path: Path) -> None:
    plan = plan_for(written_corpus(tmp_path, 3), NUMERIC, KL)
    message = missing(plan, answers(plan, "candidate"))
    assert message is not None
    assert (message.parameters["count"], message.parameters["metrics"]) == (3, ("kl",))
    assert missing(plan_for(written_corpus(tmp_path, 3)), answers(plan, "candidate")) is None
