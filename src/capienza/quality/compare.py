"""A whole comparison: the candidate's metrics, and whether the controls behaved as a test that works behaves.

The reference against itself has to pass, and the harmed candidate has to fail; else the test could not have told, and
nothing it says of the candidate counts (insufficient). A failed or missing control never turns into an admission.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from capienza.errors import InputError, InputErrors, Message, Place, phrase, shortened, template
from capienza.quality import bootstrap
from capienza.quality.alarm import judged_by_log, said_of
from capienza.quality.alike import check_alike
from capienza.quality.answers import UNKNOWN_ITEM, Answers
from capienza.quality.collect import check_corpus
from capienza.quality.corpus import Corpus
from capienza.quality.kl_log import KlLog
from capienza.quality.logprobs import with_distances
from capienza.quality.pairs import figures
from capienza.quality.plan import ALARMS, ARMS, Arm, QualityPlan
from capienza.quality.tango import Interval
from capienza.quality.verdict import LEFT_OUT, NOTHING_LEFT, Result, judge, repeats

Word = Literal["satisfied", "violated", "unknown", "no_alarm", "insufficient"]
LENGTH = "length"
STATES = tuple(phrase(state) for state in ("satisfied", "violated", "unknown"))
"""Of a metric that is no alarm."""
CONTROLS: tuple[Arm, ...] = ("reference_again", "harmed")
_MOST_PROBLEMS = 20

OTHER_PLAN = template(
    "quality.outputs-of-another-plan",
    "these outputs were made under plan {found}, not {plan}",
    "give outputs that capienza quality run made under this plan",
)
OTHER_ARM = template(
    "quality.outputs-of-another-arm",
    "these are outputs of {found}; expected those of {arm}",
    "check the order of files",
)
BEFORE_PLAN = template(
    "quality.outputs-before-plan",
    "the outputs of {arm} were begun on {date}, before the plan of {planned}",
    "check the clocks of both machines, and collect them again",
)
UNDATED = template(
    "quality.outputs-undated",
    "when the outputs of {arm} were begun is not known, so nothing shows that the plan was there before them",
    "lay the results_DATE.json that lm_eval wrote beside its log, under its own name",
)
OTHER_TOOL = template(
    "quality.arms-of-different-tools",
    "the arms were asked by different tools ({tools}), so they may have been asked differently",
    "collect every arm with the same tool",
)
NO_CONTROL = template(
    "quality.control-missing",
    "the control {arm} is missing: nothing shows that this test can fail, or that it passes what is the same",
    "collect it with capienza quality run --arm {arm}, and compare again",
)
NOT_SAME = template(
    "quality.reference-differs-from-itself",
    "{metric}: the reference against itself is {state}, so the stack does not repeat itself within the margin",
    "find what differs between two runs of the reference (sampling, batching, kernels), and freeze a new plan",
)
NOT_SHOWN_SAME = template(
    "quality.reference-repeats-unknown",
    "{metric}: too few answers of the reference can be judged to say whether it repeats itself",
    "find out why it fails on the others (too few max_tokens, a prompt that is too long), and freeze a new plan",
)
NOT_HARMED = template(
    "quality.harmed-control-passes",
    "the harmed control is not stopped ({states}): this corpus and margin would not have seen a real loss",
    "harm the control more, or take more items, under a new plan",
)
PROMPTS_DIFFER = template(
    "quality.prompts-differ",
    "{count} items have another number of prompt tokens in {arm} than in the reference, for the same model",
    "the chat template, the tokenizer or a limit on prompts differs: make the arms alike, under a new plan",
)
TWICE_THE_SAME = template(
    "quality.same-file-twice",
    "the outputs of {arm} are those of {other}",
    "each arm is a run of its own",
)


class Length(msgspec.Struct, frozen=True, kw_only=True):
    """Length of the candidate's outputs over the reference's, in characters, against the plan's band."""

    state: Word
    ratio: float | None
    band: tuple[float, float]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison says: a word for each metric, the figures behind it, and what is wrong with the test itself."""

    plan: str
    words: dict[str, Word]
    results: tuple[Result, ...]
    controls: dict[Arm, tuple[Result, ...]]
    length: Length | None
    doubts: tuple[Message, ...]
    """Why nothing counts, where that is so."""
    findings: tuple[Message, ...]


def compare(
    plan: QualityPlan,
    corpus: Corpus,
    arms: Mapping[Arm, Answers],
    doubts: tuple[Message, ...] = (),
    kl_log: KlLog | None = None,
) -> Comparison:
    """Judge the candidate, and the test itself.

    Args:
        plan: The frozen plan.
        corpus: The corpus it froze.
        arms: The answers, of `reference` and `candidate` at least.
        doubts: What is known already to keep the result from counting.
        kl_log: What llama-perplexity printed of the candidate; it gives the plan's alarms their figures.

    Raises:
        VerificationError: The corpus is another one.
        InputErrors: Answers of another plan or arm, or to items that the plan has not.
    """
    check_corpus(plan, corpus)
    _check_arms(plan, arms)
    check_alike(arms)
    arms = with_distances(arms)
    alpha, seed = float(plan.alpha), int(plan.id[:8], 16)
    reference = arms["reference"]
    ours = {metric.name: figures(metric, corpus, reference) for metric in plan.metrics}
    by_arm: dict[Arm, tuple[Result, ...]] = {
        arm: tuple(judge(metric, corpus, ours[metric.name], arms[arm], alpha, seed) for metric in plan.metrics)
        for arm in ARMS
        if arm in arms and arm != "reference"
    }
    results = by_arm.pop("candidate")
    findings = [finding for answers in arms.values() for finding in answers.findings]
    if kl_log is not None:
        results = tuple(
            judged_by_log(metric, kl_log, alpha) if metric.kind in ALARMS else result
            for metric, result in zip(plan.metrics, results, strict=True)
        )
        findings += said_of(kl_log, plan)
    doubts = (*doubts, *_doubts(plan, arms), *_control_doubts(by_arm))
    length = _length(plan, reference, arms["candidate"], corpus, alpha, seed)
    words: dict[str, Word] = {result.metric: "insufficient" if doubts else result.state for result in results}
    if length:
        words[LENGTH] = "insufficient" if doubts else length.state
    return Comparison(
        plan=plan.id,
        words=words,
        results=results,
        controls=by_arm,
        length=length,
        doubts=doubts,
        findings=tuple(findings),
    )


def _check_arms(plan: QualityPlan, arms: Mapping[Arm, Answers]) -> None:
    known = {identity for identity, _ in plan.corpus.items}
    problems: list[InputError] = []
    for arm, answers in arms.items():
        place, header = Place(answers.file), answers.header
        if header.plan != plan.id:
            problems.append(InputError(OTHER_PLAN(found=header.plan[:12], plan=plan.id[:12]), place))
        elif header.arm != arm:
            problems.append(InputError(OTHER_ARM(found=header.arm, arm=arm), place))
        unknown = [identity for identity in answers.by_item if identity not in known]
        problems += [InputError(UNKNOWN_ITEM(id=shortened(each, 60)), place) for each in unknown[:_MOST_PROBLEMS]]
    if problems:
        raise InputErrors(problems)


def _doubts(plan: QualityPlan, arms: Mapping[Arm, Answers]) -> tuple[Message, ...]:
    """What makes the outputs themselves no evidence under this plan."""
    doubts: list[Message] = []
    seen: dict[object, Arm] = {}
    tools = {answers.tool for answers in arms.values()}
    if len(tools) > 1:
        doubts.append(OTHER_TOOL(tools=", ".join(sorted(tools))))
    for arm, answers in arms.items():
        began = _began(answers)
        if began is None:
            doubts.append(UNDATED(arm=arm))
        elif began < plan.date:
            doubts.append(BEFORE_PLAN(arm=arm, date=began.isoformat(), planned=plan.date.isoformat()))
        others = {seen.setdefault(mark, arm) for mark in _marks_of_run(answers)} - {arm}
        doubts += [TWICE_THE_SAME(arm=arm, other=other) for other in sorted(others)]
        is_same_model = arm != "candidate" or plan.reference.model == plan.candidate.model
        differing = _other_prompts(arms["reference"], answers) if is_same_model and arm != "harmed" else 0
        if differing:
            doubts.append(PROMPTS_DIFFER(count=differing, arm=arm))
    return tuple(doubts)


def _began(answers: Answers) -> datetime.datetime | None:
    """When the outputs were begun: as the file says, or earlier where one of its answers is older than that."""
    began = answers.header.date
    # A second is added: the moment of an answer is written in whole ones.
    moments = [answer.at + 1 for answer in answers.by_item.values() if answer.at is not None]
    if began is None or not moments:
        return began
    return min(began, datetime.datetime.fromtimestamp(min(moments), datetime.UTC))


def _marks_of_run(answers: Answers) -> Iterator[object]:
    """What two runs never share: the file, whatever it is called, and the moment at which the tool began."""
    yield Path(answers.file).resolve()
    if answers.header.date is not None:
        yield answers.tool, answers.header.date


def _other_prompts(reference: Answers, answers: Answers) -> int:
    """Items whose prompts had another number of tokens."""
    return sum(
        answer.prompt_tokens is not None
        and (ours := reference.by_item.get(item)) is not None
        and ours.prompt_tokens not in (None, answer.prompt_tokens)
        for item, answer in answers.by_item.items()
    )


def _control_doubts(controls: Mapping[Arm, tuple[Result, ...]]) -> tuple[Message, ...]:
    """The gate as a whole has to pass the reference again, and to stop the harmed candidate by one metric at least."""
    doubts = [NO_CONTROL(arm=arm) for arm in CONTROLS if arm not in controls]
    again = [result for result in controls.get("reference_again", ()) if result.kind not in ALARMS]
    doubts += [_not_same(result) for result in again if not repeats(result)]
    harmed = controls.get("harmed", ())
    if harmed and all(result.state != "violated" for result in harmed):
        states = ", ".join(f"{result.metric}: {result.state}" for result in harmed)
        doubts.append(NOT_HARMED(states=states))
    return tuple(doubts)


def _not_same(again: Result) -> Message:
    """Does it differ from itself, or were there too few answers to say so?"""
    codes = {reason.code for reason in again.reasons}
    if again.state == "unknown" and codes & {LEFT_OUT.code, NOTHING_LEFT.code}:
        return NOT_SHOWN_SAME(metric=again.metric)
    return NOT_SAME(metric=again.metric, state=again.state)


def _length(
    plan: QualityPlan, reference: Answers, candidate: Answers, corpus: Corpus, alpha: float, seed: int
) -> Length | None:
    """Is the ratio of the summed lengths within the band? Each edge b by the sign of the mean of candidate - b ref."""
    if plan.length_band is None:
        return None
    low, high = (float(edge) for edge in plan.length_band)
    numbers: dict[str, int] = {}
    ours, theirs, clusters = [], [], []
    for item in corpus.items:
        one, other = reference.by_item.get(item.id), candidate.by_item.get(item.id)
        if one and other and one.output is not None and other.output is not None:
            ours.append(len(one.output))
            theirs.append(len(other.output))
            clusters.append(numbers.setdefault(item.cluster, len(numbers)))
    total = math.fsum(ours)
    if not total:
        return Length(state="unknown", ratio=None, band=(low, high))
    ratio = math.fsum(theirs) / total
    if ours == theirs:
        return Length(state="satisfied" if low <= 1 <= high else "violated", ratio=ratio, band=(low, high))

    def edge(band: float) -> Interval | None:
        return bootstrap.interval([b - band * a for a, b in zip(ours, theirs, strict=True)], clusters, alpha, seed)

    above_low, above_high = edge(low), edge(high)
    state: Word = "unknown"
    if above_low and above_high:
        if above_low.lower > 0 > above_high.upper:
            state = "satisfied"
        elif above_low.upper < 0 or above_high.lower > 0:
            state = "violated"
    return Length(state=state, ratio=ratio, band=(low, high))
