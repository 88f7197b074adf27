"""A plan and a comparison as records, which is what a decision reads."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from capienza import __version__
from capienza.evidence.claims import AS_EXPECTED, CONTROL, NOT_AS_EXPECTED, PLANNED, PLANNED_RUNS
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import seal
from capienza.quality.compare import CONTROLS, Comparison
from capienza.quality.corpus import digest
from capienza.quality.freeze import thresholds
from capienza.quality.plan import ALARMS, QualityPlan
from capienza.quality.verdict import Result, repeats

PLAN_FILE = "quality-plan"
RESULT_KIND = "quality_result"


def plan_record(plan: QualityPlan) -> Record:
    """The record of a frozen plan: corpus, thresholds and controls, and the plan's own digest."""
    claims = [
        Claim(quantity=metric.name, value=PLANNED, basis=thresholds(metric), phase=None) for metric in plan.metrics
    ]
    claims += [Claim(quantity=f"{CONTROL}{arm}", value=PLANNED) for arm in CONTROLS]
    claims.append(Claim(quantity=PLANNED_RUNS, value=1, basis=RESULT_KIND))
    return seal(
        Record(
            kind="plan",
            version="1",
            date=plan.date,
            subject=(*_corpus(plan), Subject(name=PLAN_FILE, sha256=plan.id)),
            scope=scope_of(plan),
            claims=tuple(claims),
            method="attest",
            mode="automatic",
            producer=_producer("plan"),
        )
    )


def result_record(
    plan: QualityPlan,
    comparison: Comparison,
    cited: Iterable[str],
    outputs: Iterable[str | Path],
    now: datetime.datetime,
) -> Record:
    """The record of a comparison.

    Args:
        plan: The frozen plan.
        comparison: What it came to.
        cited: The ids of the plan's record and of those of the outputs.
        outputs: The files of all arms, for their digests.
        now: The moment of comparing.
    """
    results = {result.metric: result for result in comparison.results}
    claims = [
        Claim(quantity=metric.name, value=comparison.words[metric.name], basis=thresholds(metric))
        for metric in plan.metrics
    ]
    claims += [
        Claim(quantity=f"{CONTROL}{arm}", value=AS_EXPECTED if _behaved(comparison, arm) else NOT_AS_EXPECTED)
        for arm in comparison.controls
    ]
    digests = sorted({digest(str(file)) for file in outputs})
    return seal(
        Record(
            kind="quality_result",
            version="1",
            date=now.astimezone(datetime.UTC),
            subject=_corpus(plan),
            scope=scope_of(plan),
            claims=tuple(claims),
            method="measure",
            mode="automatic",
            producer=_producer("evaluation"),
            inputs=(*cited, *(f"sha256:{each}" for each in digests)),
            notes=tuple(_note(result) for result in results.values()),
        )
    )


def scope_of(plan: QualityPlan) -> Scope:
    """The scope of what was compared."""
    candidate = plan.candidate
    return Scope(
        model=candidate.model,
        revision=candidate.revision,
        task=plan.task,
        weight_format=candidate.weight_format,
        kv_format=candidate.kv_format,
        engine=candidate.engine,
        engine_version=candidate.engine_version,
        configuration=candidate.configuration,
    )


def _behaved(comparison: Comparison, arm: str) -> bool:
    results = [result for result in comparison.controls[arm] if result.kind not in ALARMS]  # type: ignore[index]
    if arm == "harmed":
        return any(result.state == "violated" for result in comparison.controls["harmed"])
    return all(repeats(result) for result in results)


def _corpus(plan: QualityPlan) -> tuple[Subject, ...]:
    return (Subject(name=plan.corpus.name, sha256=plan.corpus.sha256),)


def _producer(kind: str) -> dict[str, str]:
    return {"tool": "capienza", "version": __version__, "class": kind}


def _note(result: Result) -> str:
    """The figures of one metric in one line, for whoever reads the record itself."""
    found = result.interval
    ends = f" [{found.lower:+.5f}, {found.upper:+.5f}]" if found else ""
    means = "" if result.difference is None else f": {result.candidate:.5f} against {result.reference:.5f}, "
    change = "" if result.difference is None else f"{result.difference:+.5f}{ends}, "
    return f"{result.metric}{means}{change}{result.items} items, {result.documents} documents"
