"""What the set of records as a whole does to a verdict: runs that are missing, and records that others curtail.

A failed run could be left out, and what is left would admit. So where a plan or a citation tells of a run that is not
there, nothing it concerns is admissible, by whatever evidence. A record that was withdrawn does not speak, and one of
an unfinished plan supports nothing; where their word would have come to another verdict, that is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from capienza.decide.case import Case
from capienza.decide.cost import cost_of
from capienza.decide.quality_scope import for_quality
from capienza.decide.server import job_of
from capienza.decide.verdict import CriterionVerdict
from capienza.errors import Message
from capienza.evidence.record import RecordKind, Scope
from capienza.evidence.scope import contradicts
from capienza.evidence.standing import IDENTITY
from capienza.plan.steps import plan_of

COMPATIBILITY_FIELDS = ("model", "engine", "engine_version", "weight_format", "gpu")
QUALITY_FIELDS = ("model", "revision", "task", "weight_format", "engine", "engine_version", "configuration")
RESTS_ON: dict[str, tuple[RecordKind, tuple[str, ...]]] = {
    "workload": ("measurement", IDENTITY),
    "compatibility": ("measurement", COMPATIBILITY_FIELDS),
    "memory": ("measurement", IDENTITY),
    "quality": ("quality_result", QUALITY_FIELDS),
}
"""Criteria against which a run may speak: the kind of its record, and what the run has to share with the need."""
NAMED = ("offer", "provider", "model", "gpu")

Judge = Callable[[Case], CriterionVerdict]


def missing_runs(criterion: str, case: Case) -> tuple[Message, ...]:
    """Why runs that may speak against the criterion are missing; empty when none is known to be."""
    if not case.evidence.unfinished or criterion not in RESTS_ON:
        return ()
    kind, fields = RESTS_ON[criterion]
    found = [
        one.reason
        for one in case.evidence.unfinished
        if one.kind in (None, kind) and _concerns(one.scope, case, fields)
    ]
    return tuple(dict.fromkeys(found))


def held_back(verdict: CriterionVerdict, case: Case) -> CriterionVerdict:
    """The verdict; to confirm instead of admissible while a run is missing."""
    missing = missing_runs(verdict.criterion, case) if verdict.state == "admissible" else ()
    if not missing:
        return verdict
    return msgspec.structs.replace(verdict, state="to_confirm", reasons=(*missing, *verdict.reasons), settle=missing)


def with_curtailed(verdict: CriterionVerdict, case: Case, judge: Judge) -> CriterionVerdict:
    """The verdict, with why each record that would have made it another one does not speak, or not in full."""
    curtailed = case.evidence.curtailed
    if not any(_concerns(record.scope, case, NAMED) for record, _ in curtailed):
        return verdict
    in_full = judge(_in_full(case))
    if in_full.state == verdict.state:
        return verdict
    cited = {ref.id for ref in (*in_full.evidence, *in_full.failures)}
    told = [reason for record, reasons in curtailed if record.id in cited for reason in reasons]
    return msgspec.structs.replace(verdict, reasons=tuple(dict.fromkeys((*verdict.reasons, *told))))


def _in_full(case: Case) -> Case:
    """The case as if every record spoke: durations and bill follow from records too."""
    evidence = case.evidence.in_full
    plan = plan_of(case.card.calendar, evidence.standing, case.needs)
    shared: dict[object, Any] = {}
    cost = cost_of(case.offer, job_of(shared, case.card, plan, case.sizing.volumes))
    return msgspec.structs.replace(case, evidence=evidence, shared=shared, plan=plan, cost=cost)


def _concerns(scope: Scope, case: Case, fields: tuple[str, ...]) -> bool:
    if scope.offer not in (None, case.offer.id) or scope.provider not in (None, case.offer.provider):
        return False
    if fields is QUALITY_FIELDS:
        return any(not contradicts(for_quality(scope), for_quality(need), fields) for need in case.needs)
    return any(not contradicts(scope, need, fields) for need in case.needs)
