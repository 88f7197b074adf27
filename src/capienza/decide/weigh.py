"""Many statements, one value: by rank, with conflicts kept and overrides shown (DESIGN rules 7, 8, 10).

A statement supports, violates, or doubts (it was made in scope and does not suffice, such as a peak that leaves
no margin), or tells of a run that completed without supporting (`ran`). The supporting and violating ones of the
highest rank decide. They are left open by their opposite of the same rank, a support also by a doubt, a failure
by a run that completed all the same. A proof by arithmetic decides where nothing of the highest rank supports:
only a measurement that shows the contrary outweighs it, and that is listed. So taking a supporting statement
away never helps an offer, and one more statement of the same rank never turns a value into its opposite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

import msgspec

from capienza.decide.case import Case
from capienza.decide.verdict import STATE_OF, CriterionVerdict, EvidenceRef, Finding
from capienza.errors import Message, template
from capienza.evidence.record import Record, Scope
from capienza.evidence.scope import Speaks, first_gap
from capienza.truth import Truth, all_of

CONFLICT = template(
    "decide.conflict",
    "statements of equal rank disagree: {statements}",
    "find out which one is wrong and withdraw it by a record of kind invalidates, with author and reason",
)
SETTLE_CONFLICT = template(
    "decide.settle-conflict",
    "withdraw the wrong one of {statements} by a record of kind invalidates, or add one of higher rank",
    "put a record of it into the evidence folder",
)
OVERRIDDEN = template(
    "decide.overridden",
    "{lower} says otherwise and is outweighed by {higher}",
)
GPU_AMBIGUOUS = template(
    "decide.gpu-ambiguous",
    "the seller's name may mean {candidates}, and they do not come out alike",
    "ask the seller which GPU it is",
)
SETTLE_GPU = template(
    "decide.settle-gpu",
    "have the document say which one it is: {candidates}",
    "ask the seller for the output of nvidia-smi",
)
MORE_RECORDS = template(
    "decide.more-records",
    "more records that do not count here: {count}",
    "compare the scope of each record with the card",
)

Says = Literal["supports", "violates", "doubts", "ran"]
VALUE: dict[str, Truth] = {"supports": Truth.TRUE, "violates": Truth.FALSE, "doubts": Truth.UNKNOWN}
DECISIVE = ("supports", "violates")
AGAINST: dict[Says, Says] = {"supports": "doubts", "violates": "ran"}
"""What of the same or a higher rank leaves each decisive statement open, beside its opposite."""
T = TypeVar("T")
SHOWN_RECORDS = 6
"""Reasons about records that do not count, before the rest is only counted."""


class Stance(msgspec.Struct, frozen=True, kw_only=True):
    """One statement. `rank` None: a proof by arithmetic. `is_failure`: no waiver covers it, whatever it says."""

    says: Says
    rank: int | None
    evidence: EvidenceRef
    reasons: tuple[Message, ...] = ()
    settle: tuple[Message, ...] = ()
    is_failure: bool = False


def weigh(stances: Iterable[Stance]) -> Finding:
    """The value of a set of statements; unknown without reasons when none of them speaks."""
    given = list(stances)
    if len(given) == 1 and given[0].says != "ran":
        return _alone(given[0])
    ordered = sorted(given, key=lambda stance: (-(stance.rank or 0), stance.evidence.id, stance.says))
    top = max((stance.rank or 0 for stance in ordered if stance.says in DECISIVE), default=0)
    leading = [stance for stance in ordered if stance.says in DECISIVE and stance.rank == top]
    proofs = [stance for stance in ordered if stance.rank is None]
    if proofs and not any(stance.says == "supports" for stance in leading):
        leading = proofs
    if not leading:
        leading = [stance for stance in ordered if stance.says == "doubts"]
    said = {stance.says for stance in leading}
    against = {AGAINST[says] for says in said if says in AGAINST}
    contrary = [s for s in ordered if s.says in against and (s.rank or 0) >= top and s not in leading]
    is_conflict = bool(contrary) or len(said) > 1
    leading += contrary
    reasons = [reason for stance in leading for reason in stance.reasons]
    settle = tuple(step for stance in leading for step in stance.settle)
    if is_conflict:
        statements = list(dict.fromkeys(name(stance) for stance in leading))
        reasons = [CONFLICT(statements=statements), *reasons]
        settle = (SETTLE_CONFLICT(statements=statements),)
    elif said != {"doubts"}:
        reasons += [
            OVERRIDDEN(lower=name(stance), higher=name(leading[0]))
            for stance in ordered
            if stance not in leading and (stance.says in DECISIVE or stance.says in against) and stance.says not in said
        ]
    return Finding(
        truth=VALUE[said.pop()] if said and not is_conflict else Truth.UNKNOWN,
        reasons=tuple(reasons),
        evidence=tuple(dict.fromkeys(stance.evidence for stance in leading)),
        settle=settle,
        failures=tuple(stance.evidence for stance in ordered if stance.says == "violates" or stance.is_failure),
    )


def _alone(stance: Stance) -> Finding:
    return Finding(
        truth=VALUE[stance.says],
        reasons=stance.reasons,
        evidence=(stance.evidence,),
        settle=stance.settle,
        failures=(stance.evidence,) if stance.says == "violates" or stance.is_failure else (),
    )


def name(stance: Stance) -> str:
    """How a statement is called in a sentence."""
    return short_id(stance.evidence)


def short_id(evidence: EvidenceRef) -> str:
    """How evidence is called in a sentence: the beginning of a digest, or its whole name."""
    return evidence.id[:12] if len(evidence.id) == 64 else evidence.id


def in_scope(
    records: Iterable[Record], need: Scope, fields: Sequence[str], speaks: Speaks = "success"
) -> tuple[list[Record], list[Message]]:
    """The records that cover the need, and for each of the others its first gap.

    A record that names no driver was not made for one; one that does speaks of no other.
    """
    covering, reasons = [], []
    for record in records:
        asked = (*fields, "driver") if record.scope.driver is not None else fields
        gap = first_gap(record, need, asked, speaks)
        if gap is None:
            covering.append(record)
        else:
            reasons.append(gap)
    return covering, reasons


def shorten(reasons: Sequence[Message]) -> tuple[Message, ...]:
    """The first few reasons, each once, and how many more there are."""
    known = tuple(dict.fromkeys(reasons))
    if len(known) <= SHOWN_RECORDS:
        return known
    return (*known[:SHOWN_RECORDS], MORE_RECORDS(count=len(known) - SHOWN_RECORDS))


def for_every_gpu(case: Case, judge_one: Callable[[Scope], Finding]) -> Finding:
    """Judge each GPU that the name may mean: all alike decide, anything else is unknown."""
    findings = [judge_one(need) for need in case.needs]
    values = {finding.truth for finding in findings}
    if len(findings) == 1:
        return findings[0]
    merged = merge(findings)
    if len(values) == 1:
        return msgspec.structs.replace(merged, truth=values.pop())
    candidates = [need.gpu or "" for need in case.needs]
    return msgspec.structs.replace(
        merged,
        truth=Truth.UNKNOWN,
        reasons=(GPU_AMBIGUOUS(candidates=candidates), *merged.reasons),
        settle=(SETTLE_GPU(candidates=candidates), *merged.settle),
    )


def merge(findings: Sequence[Finding]) -> Finding:
    """The conjunction of applicable findings, each reason and citation once; None when none applies.

    Where something fails, only what fails is a reason and nothing is left to settle; otherwise what is open comes
    first, then what does not apply.
    """
    values = [finding.truth for finding in findings if finding.truth is not None]
    truth = all_of(values) if values else None
    reasons: tuple[Message, ...] = ()
    evidence: tuple[EvidenceRef, ...] = ()
    settle: tuple[Message, ...] = ()
    failures: tuple[EvidenceRef, ...] = ()
    rest: list[Finding] = []
    for finding in findings:
        if finding.failures:
            failures = _with(failures, finding.failures)
        if finding.truth is not truth:
            rest.append(finding)
            continue
        reasons = _with(reasons, finding.reasons)
        if finding.evidence:
            evidence = _with(evidence, finding.evidence)
        if finding.settle and truth is Truth.UNKNOWN:
            settle = _with(settle, finding.settle)
    for finding in rest:
        if finding.evidence:
            evidence = _with(evidence, finding.evidence)
        if finding.truth is None and truth is not Truth.FALSE:
            reasons = _with(reasons, finding.reasons)
    return Finding(truth=truth, reasons=reasons, evidence=evidence, settle=settle, failures=failures)


def _with(known: tuple[T, ...], more: tuple[T, ...]) -> tuple[T, ...]:
    """What is known and each item of `more` once; the handful there is compares faster than it hashes."""
    if not known and len(more) < 2:
        return more
    for item in more:
        if item not in known:
            known = (*known, item)
    return known


def conclude(criterion: str, findings: Sequence[Finding]) -> CriterionVerdict:
    """The verdict on a criterion from its parts."""
    merged = merge(findings)
    return CriterionVerdict(
        criterion=criterion,
        state="not_applicable" if merged.truth is None else STATE_OF[merged.truth],
        reasons=merged.reasons,
        evidence=merged.evidence,
        settle=merged.settle,
        failures=merged.failures,
    )
