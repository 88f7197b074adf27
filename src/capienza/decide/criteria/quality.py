"""Quality: each metric of the card, on the frozen corpus, against thresholds fixed before looking.

A quality result states one word for each metric, with the thresholds it was judged by as basis; thresholds that
differ from the card's do not count, and neither does a success without a plan made before it (`plans`). Every metric
must pass: a good one never buys off a bad one. No format is admitted for free: a changed weight or cache format needs
its own result, and so does the one that the model is published in, which is the reference of the comparison. So does a
changed setting, but for those that only say where memory lies (`quality_scope`).
"""

from __future__ import annotations

from pathlib import PurePath

import msgspec

from capienza.card.model import NONE
from capienza.card.quality_fields import ALARM_KINDS
from capienza.card.quality_model import Metric, Quality
from capienza.card.quality_rules import kind_of
from capienza.decide.case import Case
from capienza.decide.need import IDENTITY, NOT_STATED, unstated
from capienza.decide.plans import unplanned
from capienza.decide.quality_scope import for_quality
from capienza.decide.runs import card_file
from capienza.decide.verdict import CriterionVerdict, Finding, cite
from capienza.decide.weigh import Stance, conclude, in_scope, shorten, weigh
from capienza.errors import Message, template
from capienza.evidence.claims import NO_ALARM, SATISFIED, VIOLATED, find, threshold_text
from capienza.evidence.rank import rank
from capienza.evidence.record import Record
from capienza.truth import Truth

CRITERION = "quality"
FIELDS = (*IDENTITY, "task", "kv_format", "configuration")

NOT_APPLICABLE = template(
    "decide.quality-not-applicable",
    "the card says quality: none",
)
MET = template(
    "decide.quality-met",
    "record {record}: {metric} is within its thresholds ({thresholds})",
)
MISSED = template(
    "decide.quality-missed",
    "record {record}: {metric} is beyond its thresholds ({thresholds})",
    "choose another weight format; the thresholds stay as they were fixed",
)
INCONCLUSIVE = template(
    "decide.quality-inconclusive",
    "record {record}: {metric} does not conclude ({found})",
    "more items, or a wider margin fixed before looking",
)
QUIET = template(
    "decide.quality-no-alarm",
    "record {record}: {metric} raises no alarm, which admits nothing",
    "the metrics of the answers themselves decide",
)
ALONE = template(
    "decide.quality-only-alarms",
    "the card has no metric of the answers themselves",
    "add one under quality.metrics: an alarm that stays silent admits nothing",
)
OTHER_THRESHOLDS = template(
    "decide.quality-other-thresholds",
    "record {record}: {metric} was judged by other thresholds ({found}); the card fixes {thresholds}",
    "compare again with the card's thresholds on a new plan",
)
OTHER_CORPUS = template(
    "decide.quality-other-corpus",
    "record {record} does not name the corpus {corpus} with its digest",
    "freeze the corpus and record its digest before looking at outputs",
)
UNEVALUATED = template(
    "decide.quality-unevaluated",
    "no result in scope for {metric} on {corpus}",
    "collect the outputs, compare them under the thresholds, and record the result",
)
CHANGED_WEIGHTS = template(
    "decide.quality-changed-weights",
    "the weights are held in {format}, and the model is published in {stored}: a changed format needs its own result",
    "no published score of {stored} speaks for {format}",
)
CHANGED_CACHE = template(
    "decide.quality-changed-cache",
    "the cache is held in {format}, and the model computes in {stored}: a changed format needs its own result",
    "no published score of {stored} speaks for {format}",
)
REFERENCE = template(
    "decide.quality-reference",
    "the weights are held in {format}, as published: the reference format counts only when its own result is there",
    "run the reference on the same corpus, under the same plan",
)
SETTLE = template(
    "decide.settle-quality",
    "compare {metric} ({thresholds}) on {corpus} with the engine, version and format that are sized",
    "evaluate the model of {card} on its frozen corpus, and put the result into the evidence folder",
)


def judge(case: Case) -> CriterionVerdict:
    """Are all metrics within their thresholds on the frozen corpus?"""
    quality = case.card.quality
    if quality == NONE:
        return conclude(CRITERION, [Finding(truth=None, reasons=(NOT_APPLICABLE(),))])
    open_fields = _open_fields(case, quality)
    if open_fields or not isinstance(quality, Quality):
        return conclude(CRITERION, [Finding(truth=Truth.UNKNOWN, reasons=open_fields, settle=open_fields)])
    return conclude(CRITERION, [_judge_metric(case, quality, metric) for metric in quality.metrics])


def _is_alarm(metric: Metric) -> bool:
    return kind_of(metric.name, metric.kind) in ALARM_KINDS


def _open_fields(case: Case, quality: object) -> tuple[Message, ...]:
    if not isinstance(quality, Quality):
        return (NOT_STATED(field="quality"),)
    missing = []
    if not quality.corpus:
        missing.append("quality.corpus")
    if not quality.metrics:
        missing.append("quality.metrics")
    missing += [
        f"quality.metrics.{metric.name}.min"
        for metric in quality.metrics
        if metric.min is None and metric.max_regression is None
    ]
    return (*(NOT_STATED(field=field) for field in missing), *unstated(case.needs[0], IDENTITY))


def _judge_metric(case: Case, quality: Quality, metric: Metric) -> Finding:
    need, corpus = case.needs[0], corpus_name(quality.corpus or "", case.card.file)
    results = [record for record in case.evidence.about(metric.name) if record.kind == "quality_result"]
    reduced = [msgspec.structs.replace(record, scope=for_quality(record.scope)) for record in results]
    found, reasons = in_scope(reduced, for_quality(need), FIELDS)
    covered = {record.id for record in found}
    covering = [record for record in results if record.id in covered]
    reasons += case.evidence.aside(metric.name)
    stances, quiet = [], list[Message]()
    for record in covering:
        named = [subject for subject in record.subject if subject.name == corpus]
        if not any(subject.sha256 for subject in named):
            other = OTHER_CORPUS(record=record.id[:12], corpus=corpus)
            reasons.append(other)
            if named and _is_missed(record, metric):
                stances.append(_missed_somehow(case, record, other))
            continue
        stance, doubts = _result(case, record, metric, corpus)
        stances += [stance] if stance else []
        quiet += [doubt for doubt in doubts[:1] if doubt.code == QUIET.code]
        reasons += doubts
    if covering and all(doubt.code == QUIET.code for doubt in quiet) and len(quiet) == len(covering):
        # It admits nothing: the metrics of the answers decide, where the card has any.
        others = any(not _is_alarm(other) for other in quality.metrics)
        return Finding(
            truth=None if others else Truth.UNKNOWN, reasons=tuple(quiet), settle=() if others else (ALONE(),)
        )
    finding = weigh(stances)
    if finding.truth is not Truth.UNKNOWN:
        return finding
    if not stances:
        reasons = [UNEVALUATED(metric=metric.name, corpus=corpus), *_formats(case), *reasons]
    thresholds = threshold_text(metric.min, metric.max_regression)
    settle = SETTLE(metric=metric.name, thresholds=thresholds, corpus=corpus, card=card_file(case))
    return Finding(
        truth=Truth.UNKNOWN,
        reasons=(*finding.reasons, *shorten(reasons)),
        evidence=finding.evidence,
        settle=(*finding.settle, settle),
        failures=finding.failures,
    )


def _formats(case: Case) -> list[Message]:
    """Whether the formats that are sized are those of the model as published; nothing where that is not known."""
    sizing = case.sizing
    weights, stored = sizing.weight_format, sizing.stored_weight_format
    cache, computed = sizing.kv_format, sizing.model_kv_format
    found = []
    if weights and stored:
        changed = CHANGED_WEIGHTS(format=weights, stored=stored)
        found.append(changed if weights != stored else REFERENCE(format=weights))
    if cache and computed and cache != computed:
        found.append(CHANGED_CACHE(format=cache, stored=computed))
    return found


def corpus_name(corpus: str, card_file: str | None) -> str:
    """The corpus as the card writes it, from the card's folder: a record names the same one wherever it is judged."""
    folder = PurePath(card_file).parent if card_file else PurePath()
    path = PurePath(corpus)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else corpus


def _result(case: Case, record: Record, metric: Metric, corpus: str) -> tuple[Stance | None, list[Message]]:
    """What a result on the card's corpus says of one metric, or why it says nothing."""
    short, thresholds = record.id[:12], threshold_text(metric.min, metric.max_regression)
    claims = find(record, metric.name)
    found = {claim.basis or "" for claim in claims}
    if found != {thresholds}:
        text = "; ".join(sorted(found))
        other = OTHER_THRESHOLDS(record=short, metric=metric.name, found=text, thresholds=thresholds)
        return (_missed_somehow(case, record, other) if _is_missed(record, metric) else None), [other]
    words = {str(claim.value) for claim in claims}
    evidence, weight = cite(record), rank(record, case.needs[0].offer)
    if words == {VIOLATED}:
        missed = MISSED(record=short, metric=metric.name, thresholds=thresholds)
        return Stance(says="violates", rank=weight, evidence=evidence, reasons=(missed,)), []
    if words == {SATISFIED}:
        weak = (*case.evidence.weak.get(record.id, ()), *unplanned(case, record, corpus, metric.name, thresholds))
        if weak:
            return None, list(weak)
        met = MET(record=short, metric=metric.name, thresholds=thresholds)
        return Stance(says="supports", rank=weight, evidence=evidence, reasons=(met,)), []
    if words == {NO_ALARM} and _is_alarm(metric):
        weak = unplanned(case, record, corpus, metric.name, thresholds)
        return None, list(weak) or [QUIET(record=short, metric=metric.name)]
    unclear = INCONCLUSIVE(record=short, metric=metric.name, found=", ".join(sorted(words)))
    is_failure = VIOLATED in words
    return Stance(says="doubts", rank=weight, evidence=evidence, reasons=(unclear,), is_failure=is_failure), []


def _is_missed(record: Record, metric: Metric) -> bool:
    """Does the record say that the metric is beyond the card's thresholds, whatever else it says?"""
    thresholds = threshold_text(metric.min, metric.max_regression)
    return any(claim.value == VIOLATED and claim.basis == thresholds for claim in find(record, metric.name))


def _missed_somehow(case: Case, record: Record, why: Message) -> Stance:
    """A failure in a record that is not as it should be: it excludes nothing, and no waiver covers it."""
    weight = rank(record, case.needs[0].offer)
    return Stance(says="doubts", rank=weight, evidence=cite(record), reasons=(why,), is_failure=True)
