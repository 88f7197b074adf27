"""Waivers: a named person lets an unknown pass, for one criterion, with a reason and an end.

A waiver turns *to confirm* into *admissible (waived)*, shown as such. It never covers a criterion against which an
established failure speaks, or may speak in a run that is missing, nor an exclusion. One without author, reason or
expiry is no record: it cannot be sealed.
"""

from __future__ import annotations

from capienza.decide.case import Case
from capienza.decide.completeness import missing_runs
from capienza.decide.verdict import CriterionVerdict, cite
from capienza.errors import Message, template
from capienza.evidence.claims import WAIVED, author, find
from capienza.evidence.record import Record
from capienza.evidence.scope import FIELDS, first_gap

APPLIED = template(
    "decide.waived",
    "waived by {author} until {expires}: {reason} (record {record})",
)
INCOMPLETE = template(
    "decide.waiver-incomplete",
    "waiver {record} does not name the model in its scope and does not count",
    "write another one for this model",
)
REFUSED = template(
    "decide.waiver-refused",
    "waiver {record} does not count: a failure is on record",
    "a failure is withdrawn only by showing that its record is wrong",
)
RUN_MISSING = template(
    "decide.waiver-run-missing",
    "waiver {record} does not count while a run may be missing: it may have failed",
    "add the missing run, or withdraw its plan by a record with author and reason",
)


def apply_waivers(verdict: CriterionVerdict, case: Case) -> CriterionVerdict:
    """The verdict, let pass by the first waiver that holds for this offer; otherwise with why none did."""
    if verdict.state not in ("to_confirm", "exclude") or not case.evidence.waivers:
        return verdict
    refused: list[Message] = []
    runs = missing_runs(verdict.criterion, case)
    for waiver in case.evidence.waivers:
        if not _speaks(waiver, verdict.criterion, case):
            continue
        if waiver.scope.model is None and case.needs[0].model is not None:
            refused.append(INCOMPLETE(record=waiver.id[:12]))
        elif verdict.failures or verdict.state == "exclude":
            refused.append(REFUSED(record=waiver.id[:12]))
        elif runs:
            refused += [RUN_MISSING(record=waiver.id[:12]), *runs]
        else:
            return _waived(verdict, waiver)
    return _with(verdict, refused)


def _speaks(waiver: Record, criterion: str, case: Case) -> bool:
    """Does the waiver name the criterion, and does all that its scope states hold for this offer?"""
    if not any(claim.value == WAIVED for claim in find(waiver, criterion)):
        return False
    stated = [field for field in FIELDS if getattr(waiver.scope, field) is not None]
    return all(
        getattr(need, field) is not None and first_gap(waiver, need, (field,)) is None
        for need in case.needs
        for field in stated
    )


def _waived(verdict: CriterionVerdict, waiver: Record) -> CriterionVerdict:
    reference = cite(waiver)
    applied = APPLIED(
        author=author(waiver),
        expires=waiver.expires.isoformat() if waiver.expires else "",
        reason=" ".join(note.strip() for note in waiver.notes),
        record=waiver.id[:12],
    )
    return CriterionVerdict(
        criterion=verdict.criterion,
        state="admissible",
        reasons=(applied, *verdict.reasons),
        evidence=(*verdict.evidence, reference),
        waiver=reference,
    )


def _with(verdict: CriterionVerdict, refused: list[Message]) -> CriterionVerdict:
    if not refused:
        return verdict
    return CriterionVerdict(
        criterion=verdict.criterion,
        state=verdict.state,
        reasons=tuple(dict.fromkeys((*verdict.reasons, *refused))),
        evidence=verdict.evidence,
        settle=verdict.settle,
        failures=verdict.failures,
    )
