"""Reads the sample log of lm-evaluation-harness (`--log_samples`) as the outputs of one arm.

A line is one document under one filter. What is read of it (lm_eval/evaluator.py, loggers/evaluation_tracker.py, 0.4):
  doc_id                  the document's place in its data set
  doc_hash, prompt_hash, target_hash   sha256 of the document, of the first request's prompt, and of the target
  resps                   what the model gave to each request, all of it text: [[text]] of a generation,
                          [[[log-likelihood, is greedy]], ...] of continuations, one to each choice
  filter, metrics         the filter that this line is of, and the names of the metrics that follow as keys of their own
The file is samples_TASK_DATE.jsonl, DATE being the end of the run in its machine's own time; when it began, the version
of the task and its settings stand in the file of results of the same DATE beside it (`sampled`).

The log knows no plan: that it was made after one rests on the date that its tool wrote, and the result says so. Each
answer is judged by the plan's rule, from what the model gave before any filter. A metric of the plan that is none of
our kinds by name (`acc`, `acc_norm`, `exact_match,strict-match`) takes the figure that the harness itself wrote.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from capienza.errors import InputError, InputErrors, Message, Place, VerificationError, shortened, template
from capienza.jsonlines import Row, read_objects
from capienza.quality.answers import ANSWERED_TWICE, LINE_BYTES, UNKNOWN_ITEM, Answer, Answers, Header
from capienza.quality.corpus import Corpus, Item
from capienza.quality.metrics.figure import figure_of
from capienza.quality.plan import BINARY, Arm, PlannedMetric, QualityPlan
from capienza.quality.sampled import run_of

TOOL = "lm-evaluation-harness"
HASHES = ("doc_hash", "prompt_hash", "target_hash")
_MOST_PROBLEMS = 20
_MOST_FILTERS = 32
_ROUNDING = 1e-6
_SHARED = {"choice": "acc", "exact_match": "exact_match"}
"""What the harness calls the metric that a kind of ours counts too."""

NOT_A_SAMPLE = template(
    "quality.not-a-sample",
    "the line is no sample of lm-evaluation-harness: {problem}",
    "give the samples_TASK_DATE.jsonl that lm_eval --log_samples writes, unchanged; 0.4.2 and later are read",
)
SEVERAL_ANSWERS = template(
    "quality.sample-with-repeats",
    "document {id} was answered {count} times (repeats)",
    "run the task with repeats: 1: an item has one answer, and the best of several is none",
)
BAD_LOGPROB = template(
    "quality.bad-log-probability",
    "{found} is no log-probability: it is a number of at most 0",
    "the logits of this run are broken (NaN) or are scores of another kind; run it again before comparing",
)
SEVERAL_FILTERS = template(
    "quality.metric-of-several-filters",
    "the log has {metric} by several filters",
    "name one of them in the card: {accepted}",
)
NOT_RIGHT_OR_WRONG = template(
    "quality.figure-not-right-or-wrong",
    "{metric} of document {id} is {found}; a metric of the kind {kind} is 0 or 1",
    "give the metric another kind, or count right and wrong",
)
NOT_A_FIGURE = template(
    "quality.figure-not-a-number", "{metric} of document {id} is {found}, which is no finite number"
)
PROMPT_CHANGED = template(
    "quality.sample-of-another-prompt",
    "item {id} was asked with another prompt than the corpus has (prompt_hash {found}, and {stated} of the corpus)",
    "few-shot examples, chat template and task version must be those of the frozen corpus; else freeze a new plan",
)
BY_DATE_ALONE = template(
    "quality.order-by-date-alone",
    "{arm}: a log of {tool} names no plan; that it was made after the plan rests on the date it states",
)
CUTS_UNKNOWN = template(
    "quality.cuts-not-logged",
    "{arm}: the log does not say which answers were ended by a limit, so none counts as truncated",
)
PROMPTS_UNCHECKED = template(
    "quality.sample-prompts-unchecked",
    "{arm}: {count} items are messages in the corpus, and the log has the digest of a text: that they were asked the "
    "same is not checked",
)
TAKEN = template("quality.figures-of-the-harness", "{arm}: {metric} is the figure that the harness wrote for each item")
SCORED_OTHERWISE = template(
    "quality.scored-otherwise",
    "{arm}: the harness scores {count} of {items} items otherwise by {name} than this plan's {metric}; the plan's rule "
    "decides",
)


class _Given(NamedTuple):
    """What the model gave to one document: its text, and the log-probability of the accepted continuation."""

    output: str
    logprob: float | None


def is_sample(row: Row) -> bool:
    """Is the object a line of such a log?"""
    return "doc_id" in row and "resps" in row


def read_samples(path: str, plan: QualityPlan, corpus: Corpus, arm: Arm) -> Answers:
    """The outputs of one arm from a sample log, by the items of the plan.

    An item is the document whose `TASK/doc_id`, `doc_id` or `doc_hash` is its id.

    Raises:
        UnreachableError: The file is not there.
        InputError, InputErrors: Lines that are no samples, documents the plan has not, figures that are none.
        VerificationError: A prompt is not the one of the corpus.
    """
    run = run_of(Path(path))
    reader = _Reader(path, run.task, corpus)
    for number, row in read_objects(path, LINE_BYTES):
        reader.add(row, Place(path, line=number))
    reader.check()
    given = {
        metric.name: figures
        for metric in plan.metrics
        if (figures := _given_by(metric, reader.figures, Place(path))) is not None
    }
    findings = [*run.findings(arm), *(TAKEN(arm=arm, metric=name) for name in given)]
    findings += [*_scored_otherwise(reader, plan, arm), BY_DATE_ALONE(arm=arm, tool=TOOL), CUTS_UNKNOWN(arm=arm)]
    if reader.unchecked:
        findings.append(PROMPTS_UNCHECKED(arm=arm, count=reader.unchecked))
    return Answers(
        file=path,
        header=Header(plan=plan.id, arm=arm, target=TOOL, date=run.began),
        by_item=reader.answers,
        findings=tuple(findings),
        tool=TOOL,
        given=given,
        marks=reader.marks,
        settings=run.settings | {"metrics": ", ".join(sorted(given))},
    )


class _Reader:
    """Takes lines one after another, and keeps of each no more than is compared."""

    def __init__(self, path: str, task: str | None, corpus: Corpus) -> None:
        self.path, self.task = path, task
        self.items = {item.id: item for item in corpus.items}
        self.answers: dict[str, Answer] = {}
        self.marks: dict[str, bytes] = {}
        self.figures: dict[tuple[str, str], dict[str, float | str]] = {}
        self.lines: dict[tuple[str, str], int] = {}
        self.filters: set[str] = set()
        self.problems: list[InputError] = []
        self.unchecked = 0

    def add(self, row: Row, place: Place) -> None:
        """One line; what is wrong with it is kept until `check`, or raised where there is too much of it."""
        try:
            self._take(row, place)
        except InputError as error:
            self.problems.append(error)
        if len(self.problems) >= _MOST_PROBLEMS:
            self.check()

    def check(self) -> None:
        """Raises what was found wrong."""
        if self.problems:
            raise InputErrors(self.problems)

    def _take(self, row: Row, place: Place) -> None:
        item, under = self._item(row, place), row.get("filter", "none")
        if not isinstance(under, str) or len(self.filters | {under}) > _MOST_FILTERS:
            raise InputError(NOT_A_SAMPLE(problem=f"filter {shortened(str(under), 40)}"), place)
        self.filters.add(under)
        if (before := self.lines.get((item.id, under))) is not None:
            raise InputError(ANSWERED_TWICE(id=shortened(item.id), line=before), place)
        self.lines[item.id, under] = place.line or 0
        mark = self._mark(row, item, place)
        if self.marks.setdefault(item.id, mark) != mark:
            raise InputError(NOT_A_SAMPLE(problem=f"{', '.join(HASHES)} differ by filter"), place)
        if item.id not in self.answers:
            given = _given(row, item, place)
            self.answers[item.id] = Answer(item=item.id, output=given.output, logprob=given.logprob)
        for name in _metrics(row):
            value = row[name]
            known = isinstance(value, int | float) and math.isfinite(value)
            kept = float(value) if known else shortened(str(value), 40)
            self.figures.setdefault((name, under), {})[item.id] = kept

    def _item(self, row: Row, place: Place) -> Item:
        number, digest = row.get("doc_id"), row.get("doc_hash")
        if isinstance(number, bool) or not isinstance(number, int | str) or not isinstance(digest, str):
            raise InputError(NOT_A_SAMPLE(problem="doc_id, doc_hash"), place)
        for name in (f"{self.task}/{number}", str(number), digest):
            if (item := self.items.get(name)) is not None:
                return item
        raise InputError(UNKNOWN_ITEM(id=shortened(f"{self.task}/{number}" if self.task else str(number), 60)), place)

    def _mark(self, row: Row, item: Item, place: Place) -> bytes:
        """A digest of the three hashes. Raises `VerificationError` where the prompt is not that of the corpus."""
        hashes = [row.get(name) for name in HASHES]
        missing = [name for name, each in zip(HASHES, hashes, strict=True) if not isinstance(each, str)]
        if missing:
            raise InputError(NOT_A_SAMPLE(problem=", ".join(missing)), place)
        if item.prompt is None:
            self.unchecked += item.id not in self.marks
        elif (stated := hashlib.sha256(item.prompt.encode()).hexdigest()) != hashes[1]:
            message = PROMPT_CHANGED(id=shortened(item.id, 60), found=str(hashes[1])[:12], stated=stated[:12])
            raise VerificationError(message, place)
        return hashlib.sha256("\n".join(map(str, hashes)).encode()).digest()[:16]


def _metrics(row: Row) -> list[str]:
    """The names of the metrics of a line; older versions do not list them."""
    listed = row.get("metrics")
    if isinstance(listed, list):
        return [name for name in listed if isinstance(name, str) and name in row]
    return [name for name in ("acc", "acc_norm", "exact_match", "em", "f1") if name in row]


def _given(row: Row, item: Item, place: Place) -> _Given:
    """What the model gave, before any filter."""
    resps = row["resps"]
    if not isinstance(resps, list) or not resps or not all(isinstance(each, list) and each for each in resps):
        raise InputError(NOT_A_SAMPLE(problem="resps"), place)
    if any(len(each) != 1 for each in resps):
        raise InputError(SEVERAL_ANSWERS(id=shortened(item.id, 60), count=max(map(len, resps))), place)
    first = [each[0] for each in resps]
    if len(first) == 1 and isinstance(first[0], str):
        if _is_rolling(row):
            return _Given("", _logprob(first[0], place))
        return _Given(first[0], None)
    if not all(isinstance(each, list) and len(each) == 2 for each in first):
        raise InputError(NOT_A_SAMPLE(problem="resps"), place)
    return _of_continuations([_logprob(each[0], place) for each in first], str(first[0][1]) == "True", item, place)


def _is_rolling(row: Row) -> bool:
    """Is the one response the log-likelihood of the whole text? Its request has a text and nothing to stop at."""
    arguments = row.get("arguments")
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
    return isinstance(first, dict) and "arg_0" in first and "arg_1" not in first


def _of_continuations(values: list[float], is_greedy: bool, item: Item, place: Place) -> _Given:
    """One continuation: was it what the model itself would have said? Several: the likeliest choice."""
    if len(values) == 1:
        return _Given(item.expected[0] if is_greedy and item.expected else "", _finite(values[0]))
    if len(values) != len(item.choices):
        problem = f"{len(values)} resps, {len(item.choices)} choices"
        raise InputError(NOT_A_SAMPLE(problem=problem), place)
    accepted = [value for value, label in zip(values, item.choices, strict=True) if label in item.expected]
    best = item.choices[max(range(len(values)), key=values.__getitem__)]
    return _Given(best, _finite(max(accepted)) if accepted else None)


def _logprob(value: object, place: Place) -> float:
    """A log-probability; the log has it as text. Raises `InputError` for NaN and what is above 0."""
    try:
        found = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        found = math.nan
    if math.isnan(found) or found > _ROUNDING:
        raise InputError(BAD_LOGPROB(found=shortened(str(value), 40)), place)
    return min(found, 0.0)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _given_by(
    metric: PlannedMetric, figures: Mapping[tuple[str, str], Mapping[str, float | str]], place: Place
) -> dict[str, float] | None:
    """The harness's own figures for a metric that bears no name of ours; None where the plan's rule judges."""
    if metric.name == metric.kind:
        return None
    found = {key: each for key, each in figures.items() if metric.name in (key[0], ",".join(key))}
    if not found:
        return None
    if len(found) > 1:
        raise InputError(SEVERAL_FILTERS(metric=metric.name, accepted=_names(found)), place)
    (values,) = found.values()
    checked: dict[str, float] = {}
    for item, value in values.items():
        said: dict[str, Any] = {"metric": metric.name, "id": shortened(item, 60), "found": f"{value}"}
        if not isinstance(value, float):
            raise InputError(NOT_A_FIGURE(**said), place)
        if metric.kind in BINARY and value not in (0.0, 1.0):
            raise InputError(NOT_RIGHT_OR_WRONG(**said, kind=metric.kind), place)
        checked[item] = value
    return checked


def _names(figures: Mapping[tuple[str, str], object]) -> tuple[str, ...]:
    return tuple(sorted(",".join(key) for key in figures))


def _scored_otherwise(reader: _Reader, plan: QualityPlan, arm: Arm) -> Iterator[Message]:
    """Where the harness's own score of an item is another than that of the plan's rule, for a metric they share."""
    for metric in plan.metrics:
        theirs = _SHARED.get(metric.kind) if metric.name == metric.kind else None
        figure = figure_of(metric)
        for (name, under), values in reader.figures.items():
            if name != theirs:
                continue
            differing = sum(figure(reader.items[item], reader.answers[item]) != value for item, value in values.items())
            if differing:
                under_filter = name if under == "none" else f"{name},{under}"
                yield SCORED_OTHERWISE(
                    arm=arm, count=differing, items=len(values), name=under_filter, metric=metric.name
                )
