"""Sample logs of lm-evaluation-harness as outputs: matched by item, judged by the plan's rule, hostile ones refused."""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from gate import NOW, plan_for
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.api.qualifying import quality_compare
from capienza.errors import CapienzaError, InputError, InputErrors, VerificationError
from capienza.jsonlines import read_objects
from capienza.quality.corpus import Corpus, read_corpus
from capienza.quality.outputs import read_outputs
from capienza.quality.plan import PlannedMetric, QualityPlan, write_plan

pytest.importorskip("numpy")

STAMP = "2026-11-30T14-30-00.123456"
LABELS = ["Rome", "Paris", "Oslo", "Bern"]
CHOICE = PlannedMetric(name="choice", kind="choice", max_regression=Decimal("0.05"), reason="test")
ACC = PlannedMetric(name="acc", kind="choice", max_regression=Decimal("0.05"), reason="test")
STRICT = PlannedMetric(name="exact_match,strict-match", kind="exact_match", max_regression=Decimal("0.05"))
NUMERIC = PlannedMetric(name="numeric", kind="numeric", max_regression=Decimal("0.05"), reason="test")
LOGPROB = PlannedMetric(name="logprob", kind="logprob", max_regression=Decimal("0.5"), reason="test")
Row = dict[str, Any]


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _corpus(folder: Path, count: int = 200, *, is_choice: bool = True) -> Corpus:
    path = folder / "corpus.jsonl"
    rows = (
        {"id": f"towns/{n}", "cluster": f"d{n}", "prompt": f"Town {n}?", "expected": LABELS[n % 4], "choices": LABELS}
        if is_choice
        else {"id": f"towns/{n}", "prompt": f"Town {n}?", "expected": n}
        for n in range(count)
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return read_corpus(str(path))


def _hashes(n: int) -> Row:
    return {
        "doc_hash": _sha(f"doc {n}"),
        "prompt_hash": _sha(f"Town {n}?"),
        "target_hash": _sha(str(n % 4)),
    }


def _multiple_choice(n: int, is_wrong: bool) -> Row:
    said = (n + is_wrong) % 4
    pairs = [[repr(-1.5 - 3 * (k != said) - n / 1000), str(k == said)] for k in range(4)]
    return {
        "doc_id": n,
        "doc": {"question": f"Town {n}?"},
        "target": str(n % 4),
        "arguments": {f"gen_args_{k}": {"arg_0": f"Town {n}?", "arg_1": f" {LABELS[k]}"} for k in range(4)},
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        **_hashes(n),
        "acc": float(not is_wrong),
        "acc_norm": 1.0,
    }


def _generation(n: int, is_wrong: bool, under: str = "strict-match", score: float | None = None) -> Row:
    return {
        "doc_id": n,
        "doc": {"question": f"Town {n}?"},
        "target": str(n),
        "arguments": {"gen_args_0": {"arg_0": f"Town {n}?", "arg_1": {"until": ["\n\n"], "do_sample": False}}},
        "resps": [[f"I count. #### {n + is_wrong}"]],
        "filtered_resps": [str(n + is_wrong)],
        "filter": under,
        "metrics": ["exact_match"],
        **_hashes(n),
        "exact_match": float(not is_wrong) if score is None else score,
    }


def _written(folder: Path, rows: list[Row], **results: object) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_towns_{STAMP}.jsonl"
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    stated = {
        "results": {"towns": {"acc,none": 0.9, "acc_stderr,none": float("nan")}},
        "date": NOW.timestamp() + 3600 + sum(folder.name.encode()),  # no two runs begin at once
        "versions": {"towns": 3.0},
        "configs": {"towns": {"task": "towns", "metadata": {"pretrained": folder.name}}},
        "n-shot": {"towns": 5},
        "lm_eval_version": "0.4.9",
        "model_name": f"model-{folder.name}",
    } | results
    (folder / f"results_{STAMP}.json").write_text(json.dumps(stated))
    return str(path)


def _compared(folder: Path, plan: QualityPlan, files: Mapping[str, str | None]) -> Any:
    write_plan(plan, folder / "plan.json")
    return quality_compare(
        folder / "plan.json",
        str(files["reference"]),
        str(files["candidate"]),
        reference_again=files.get("reference_again"),
        harmed=files.get("harmed"),
        evidence=None,
    )


def _arms(folder: Path, make: Callable[[int, bool], Row], wrong: int, count: int = 200) -> dict[str, str | None]:
    many = {"reference": 0, "reference_again": 0, "candidate": wrong, "harmed": count // 2}
    return {arm: _written(folder / arm, [make(n, n < bad) for n in range(count)]) for arm, bad in many.items()}


@pytest.mark.parametrize("wrong, word", [(0, "satisfied"), (40, "violated"), (10, "unknown")])
def test_multiple_choice_is_judged_by_the_likeliest_choice(tmp_path: Path, wrong: int, word: str) -> None:
    plan = plan_for(_corpus(tmp_path), CHOICE, ACC, LOGPROB)
    found = _compared(tmp_path, plan, _arms(tmp_path, _multiple_choice, wrong)).comparison
    assert not found.doubts
    assert found.words["choice"] == found.words["acc"] == word
    by_name = {result.metric: result for result in found.results}
    assert by_name["choice"].loss == wrong
    codes = {finding.code for finding in found.findings}
    assert {"quality.log-of-harness", "quality.order-by-date-alone", "quality.figures-of-the-harness"} <= codes
    if wrong:
        # The right label is 3 less likely on each of the wrong ones.
        assert by_name["logprob"].difference == pytest.approx(-3 * wrong / 200)


def test_generations_are_judged_from_what_the_model_said_and_by_one_filter(tmp_path: Path) -> None:
    plan = plan_for(_corpus(tmp_path, is_choice=False), NUMERIC, STRICT)
    arms: dict[str, str] = {}
    for arm, bad in {"reference": 0, "reference_again": 0, "candidate": 2, "harmed": 100}.items():
        rows = [
            row
            for n in range(200)
            for row in (_generation(n, n < bad), _generation(n, n < bad, "flexible-extract", score=1.0))
        ]
        arms[arm] = _written(tmp_path / arm, rows)
    found = _compared(tmp_path, plan, arms).comparison
    assert not found.doubts
    assert [result.loss for result in found.results] == [2, 2]


def test_a_metric_of_two_filters_has_to_name_one(tmp_path: Path) -> None:
    metric = PlannedMetric(name="em", kind="exact_match", max_regression=Decimal("0.05"))
    corpus = _corpus(tmp_path, 1, is_choice=False)
    rows = [{**_generation(0, False, under), "metrics": ["em"], "em": 1.0} for under in ("a", "b")]
    with pytest.raises(InputError) as caught:
        read_outputs(_written(tmp_path / "r", rows), plan_for(corpus, metric), corpus, "reference")
    assert caught.value.message.code == "quality.metric-of-several-filters"
    assert caught.value.message.parameters["accepted"] == ("em,a", "em,b")


def test_the_harness_scoring_otherwise_is_said(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path, 3)
    rows = [_multiple_choice(n, False) | {"acc": 0.0} for n in range(3)]
    found = read_outputs(_written(tmp_path / "r", rows), plan_for(corpus, CHOICE), corpus, "reference")
    said = {finding.code: finding.parameters for finding in found.findings}
    assert said["quality.scored-otherwise"]["count"] == 3


def test_one_continuation_is_right_where_the_model_would_have_said_it(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path, 2, is_choice=False)
    rows = [
        {**_generation(n, False), "resps": [[["-2.5", str(n == 0)]]], "metrics": ["acc"], "acc": 1.0} for n in (0, 1)
    ]
    found = read_outputs(_written(tmp_path / "r", rows), plan_for(corpus, LOGPROB), corpus, "reference")
    assert [found.by_item[f"towns/{n}"].output for n in (0, 1)] == ["0", ""]
    assert found.by_item["towns/1"].logprob == -2.5


def _changed(key: str, value: object) -> Callable[[list[Row]], None]:
    return lambda rows: rows[0].__setitem__(key, value)


HOSTILE: dict[str, tuple[Callable[[list[Row]], None], str]] = {
    "nan": (_changed("resps", [[["nan", "False"]]] * 4), "quality.bad-log-probability"),
    "positive": (_changed("resps", [[["0.7", "False"]]] * 4), "quality.bad-log-probability"),
    "no number": (_changed("resps", [[["x", "False"]]] * 4), "quality.bad-log-probability"),
    "too few choices": (_changed("resps", [[["-1", "False"]]] * 3), "quality.not-a-sample"),
    "no resps": (_changed("resps", []), "quality.not-a-sample"),
    "resps of another shape": (_changed("resps", {"a": 1}), "quality.not-a-sample"),
    "repeats": (_changed("resps", [["a", "b"]]), "quality.sample-with-repeats"),
    "no hash": (_changed("doc_hash", None), "quality.not-a-sample"),
    "no prompt hash": (_changed("prompt_hash", 3), "quality.not-a-sample"),
    "unknown document": (_changed("doc_id", 4711), "quality.unknown-item"),
    "document of no kind": (_changed("doc_id", True), "quality.not-a-sample"),
    "filter of no kind": (_changed("filter", {}), "quality.not-a-sample"),
    "another prompt": (_changed("prompt_hash", _sha("other")), "quality.sample-of-another-prompt"),
    "twice": (lambda rows: rows.append(copy.deepcopy(rows[0])), "quality.answered-twice"),
    "half a point": (_changed("acc", 0.5), "quality.figure-not-right-or-wrong"),
    "no figure": (_changed("acc", "high"), "quality.figure-not-a-number"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_logs_end_in_an_error_that_says_what(tmp_path: Path, name: str) -> None:
    harm, code = HOSTILE[name]
    corpus = _corpus(tmp_path, 5)
    rows = [_multiple_choice(n, False) for n in range(5)]
    harm(rows)
    path = _written(tmp_path / "r", rows)
    with pytest.raises(CapienzaError) as caught:
        read_outputs(path, plan_for(corpus, CHOICE, ACC), corpus, "reference")
    errors = caught.value.problems if isinstance(caught.value, InputErrors) else [caught.value]
    assert errors[0].message.code == code
    assert path in str(caught.value)


def test_a_million_unknown_documents_are_not_read_to_the_end(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path, 5)
    rows = [_multiple_choice(n, False) | {"doc_id": 10_000 + n} for n in range(200)]
    with pytest.raises(InputErrors) as caught:
        read_outputs(_written(tmp_path / "r", rows), plan_for(corpus, CHOICE), corpus, "reference")
    assert len(caught.value.problems) == 20


@pytest.mark.parametrize("change", ["doc_hash", "target_hash"])
def test_arms_of_another_corpus_are_an_error(tmp_path: Path, change: str) -> None:
    plan = plan_for(_corpus(tmp_path), CHOICE)
    files = _arms(tmp_path, _multiple_choice, 0)
    rows = [_multiple_choice(n, False) for n in range(200)]
    rows[7][change] = _sha("other")
    files["candidate"] = _written(tmp_path / "candidate", rows)
    with pytest.raises(InputErrors) as caught:
        _compared(tmp_path, plan, files)
    (error,) = caught.value.problems
    assert (error.message.code, error.message.parameters["id"]) == ("quality.arms-of-another-corpus", "towns/7")


@pytest.mark.parametrize(
    "results, setting",
    [
        ({"versions": {"towns": 4.0}}, "versions"),
        ({"n-shot": {"towns": 0}}, "n-shot"),
        ({"configs": {"towns": {"task": "towns", "generation_kwargs": {"max_gen_toks": 9}}}}, "configs"),
        ({"chat_template_sha": "abc"}, "chat_template_sha"),
    ],
)
def test_arms_of_another_task_version_are_an_error(tmp_path: Path, results: Row, setting: str) -> None:
    plan = plan_for(_corpus(tmp_path), CHOICE)
    files = _arms(tmp_path, _multiple_choice, 0)
    files["candidate"] = _written(tmp_path / "candidate", [_multiple_choice(n, False) for n in range(200)], **results)
    with pytest.raises(InputErrors) as caught:
        _compared(tmp_path, plan, files)
    assert caught.value.problems[0].message.code == "quality.arms-set-otherwise"
    assert caught.value.problems[0].message.parameters["setting"] == setting


def test_a_run_before_the_plan_counts_for_nothing(tmp_path: Path) -> None:
    plan = plan_for(_corpus(tmp_path), CHOICE)
    files = _arms(tmp_path, _multiple_choice, 0)
    rows = [_multiple_choice(n, False) for n in range(200)]
    files["candidate"] = _written(tmp_path / "candidate", rows, date=NOW.timestamp() - 1)
    found = _compared(tmp_path, plan, files).comparison
    assert set(found.words.values()) == {"insufficient"}
    assert [doubt.code for doubt in found.doubts] == ["quality.outputs-before-plan"]


@pytest.mark.parametrize("date", [None, "soon", True, 1e300])
def test_a_run_whose_begin_is_unknown_counts_for_nothing(tmp_path: Path, date: object) -> None:
    plan = plan_for(_corpus(tmp_path), CHOICE)
    files = _arms(tmp_path, _multiple_choice, 0)
    files["candidate"] = _written(tmp_path / "candidate", [_multiple_choice(n, False) for n in range(200)], date=date)
    found = _compared(tmp_path, plan, files).comparison
    assert [doubt.code for doubt in found.doubts] == ["quality.outputs-undated"]


def test_a_log_without_its_results_and_a_missing_control_are_doubts(tmp_path: Path) -> None:
    plan = plan_for(_corpus(tmp_path), CHOICE)
    files = _arms(tmp_path, _multiple_choice, 0) | {"harmed": None}
    (tmp_path / "candidate" / f"results_{STAMP}.json").unlink()
    found = _compared(tmp_path, plan, files).comparison
    assert {doubt.code for doubt in found.doubts} == {"quality.outputs-undated", "quality.control-missing"}


def test_arms_of_two_tools_count_for_nothing(tmp_path: Path) -> None:
    plan = plan_for(_corpus(tmp_path), CHOICE)
    files = _arms(tmp_path, _multiple_choice, 0)
    own = tmp_path / "own.jsonl"
    date = (NOW + datetime.timedelta(hours=1)).isoformat()
    header = {"schema": "capienza.quality-outputs/1", "plan": plan.id, "arm": "candidate", "target": "t", "date": date}
    lines = [header, *({"item": f"towns/{n}", "output": LABELS[n % 4]} for n in range(200))]
    own.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = _compared(tmp_path, plan, files | {"candidate": str(own)}).comparison
    assert "quality.arms-of-different-tools" in {doubt.code for doubt in found.doubts}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text('"\\: u0022', max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a":', max_size=2), inner, max_size=3),
        max_leaves=8,
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(", ", ": "), (",", ":"), (" , ", " : ")]),
)
@settings(max_examples=200, deadline=None)
def test_a_key_written_twice_is_always_found(
    tmp_path_factory: pytest.TempPathFactory, value: object, is_ascii: bool, is_twice: bool, separators: tuple[str, str]
) -> None:
    inner = json.dumps({"k": value}, ensure_ascii=is_ascii, separators=separators)
    line = f'{{"a": {inner}, "b": 1{", " + chr(34) + "b" + chr(34) + ":2" if is_twice else ""}}}'
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    path.write_text(line + "\n")
    if is_twice:
        with pytest.raises(CapienzaError):
            list(read_objects(str(path), 10_000))
    else:
        assert [row for _, row in read_objects(str(path), 10_000)] == [json.loads(line)]


def test_an_escaped_quote_does_not_hide_a_key_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":"\\u0022:","b":1,"b":2}\n')
    with pytest.raises(InputError) as caught:
        list(read_objects(str(path), 1_000))
    assert caught.value.message.code == "jsonlines.repeated-key"


def test_another_prompt_is_no_mere_bad_line(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path, 2)
    rows = [_multiple_choice(n, False) | {"prompt_hash": _sha("x")} for n in range(2)]
    with pytest.raises(VerificationError):
        read_outputs(_written(tmp_path / "r", rows), plan_for(corpus, CHOICE), corpus, "reference")
