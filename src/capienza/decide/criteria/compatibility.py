"""Compatibility: engine, version, weight format and GPU work together, by official documentation or by a probe.

A rule of the catalogue that is violated excludes; one that holds is necessary, not sufficient. What rules say of a
server is judged offer by offer, and both must hold. An environment asked for when ordering is a wish and proves
nothing; a probe of one that is there does.
"""

from __future__ import annotations

import msgspec

from capienza.decide.case import Case
from capienza.decide.need import unstated
from capienza.decide.probes import probes
from capienza.decide.runs import card_file
from capienza.decide.server_rules import server_finding
from capienza.decide.verdict import CriterionVerdict, Finding, cite
from capienza.decide.weigh import OVERRIDDEN, Says, Stance, conclude, for_every_gpu, in_scope, short_id, shorten, weigh
from capienza.errors import Message, template
from capienza.evidence.claims import COMPATIBILITY, COMPLETED, OUTCOME, SATISFIED, VIOLATED, find, word
from capienza.evidence.rank import MEASURED_HERE, OFFER_DOCUMENT, rank
from capienza.evidence.record import Record, Scope
from capienza.truth import Truth

CRITERION = "compatibility"
STATED = ("model", "engine", "engine_version", "weight_format")
FIELDS = (*STATED, "kv_format", "gpu")

VERIFIED = template(
    "decide.compatibility-verified",
    "record {record}: {engine} {version} runs {format} on {gpu}",
)
BROKEN = template(
    "decide.compatibility-broken",
    "record {record}: {engine} {version} does not run {format} on {gpu}",
    "choose another engine, version, format or GPU",
)
TWO_WORDS = template(
    "decide.compatibility-two-words",
    "record {record} says that {engine} {version} runs {format} on {gpu}, and that it does not",
    "find out which is true, and withdraw the record by one of kind invalidates, with author and reason",
)
UNVERIFIED = template(
    "decide.compatibility-unverified",
    "nothing in scope shows {engine} {version} with {format} on {gpu}; an environment asked for is a wish",
    "cite the engine's documentation, or probe the intended environment",
)
SETTLE = template(
    "decide.settle-compatibility",
    "a document on {engine} {version} that names {format} and {gpu}, or a short run that completes there",
    "look for such a document, or run the workload of {card} once in the intended environment; record what was found",
)


def judge(case: Case) -> CriterionVerdict:
    """Is the combination verified, violated, or only wished for?

    What the GPU and the records tell is the same for all offers of a card class; a server is of its own.
    """
    known: tuple[Finding, CriterionVerdict] | None = case.shared.get(CRITERION)
    if known is None:
        finding = for_every_gpu(case, lambda need: _judge_gpu(case, need))
        known = case.shared[CRITERION] = finding, conclude(CRITERION, [finding])
    finding, verdict = known
    if not _states_server(case):
        return verdict
    server = for_every_gpu(case, lambda need: _judge_server(case, need))
    if server.truth is None and not server.reasons:
        return verdict
    if server.truth is Truth.FALSE and finding.truth is Truth.TRUE:
        server = msgspec.structs.replace(server, reasons=(*server.reasons, *_outweighed(finding, server)))
    return conclude(CRITERION, [finding, server])


def _outweighed(finding: Finding, server: Finding) -> list[Message]:
    """What was shown elsewhere, on such a GPU, says nothing against what is documented of this server."""
    higher = short_id(server.evidence[0])
    return [OVERRIDDEN(lower=short_id(one), higher=higher) for one in finding.evidence]


def _judge_server(case: Case, need: Scope) -> Finding:
    here = [one for one in _stances(case, need)[0] if one.says == "supports" and one.rank == MEASURED_HERE]
    return server_finding(case, need, here)


def _states_server(case: Case) -> bool:
    host = case.offer.host
    stated = (host.driver_version, host.cuda_max, host.rocm, host.cpu_arch)
    return case.offer.id in case.evidence.offers or any(value is not None for value in stated)


def _judge_gpu(case: Case, need: Scope) -> Finding:
    rules = [rule for rule in case.sizing.rules if rule.gpu in (None, need.gpu)]
    notes = tuple(rule.reason for rule in rules if rule.is_note)
    stances, reasons = _stances(case, need)
    stances += [
        Stance(says="violates", rank=OFFER_DOCUMENT, evidence=rule.evidence, reasons=(rule.reason,))
        for rule in rules
        if rule.truth is Truth.FALSE and rule.evidence is not None
    ]
    finding = weigh(stances)
    if finding.truth is Truth.FALSE:
        return finding
    if finding.truth is Truth.TRUE:
        return msgspec.structs.replace(finding, reasons=(*finding.reasons, *notes))
    open_fields = unstated(need, STATED)
    doubts = [rule for rule in rules if rule.truth is Truth.UNKNOWN]
    reasons = [*(rule.reason for rule in doubts), *reasons]
    settle: tuple[Message, ...] = open_fields
    if not open_fields:
        names = _names(need)
        settle = (SETTLE(card=card_file(case), **names),)
        if not stances:
            reasons.insert(0, UNVERIFIED(**names))
    cited = tuple(rule.evidence for rule in rules if rule.evidence and (rule.is_note or rule.truth is Truth.UNKNOWN))
    return Finding(
        truth=Truth.UNKNOWN,
        reasons=(*finding.reasons, *shorten(reasons), *notes),
        evidence=tuple(dict.fromkeys((*finding.evidence, *cited))),
        settle=(*finding.settle, *settle),
        failures=finding.failures,
    )


def _stances(case: Case, need: Scope) -> tuple[list[Stance], list[Message]]:
    """What records say of the combination, and why others do not count."""
    open_fields = unstated(need, STATED)
    if open_fields:
        return [], list(open_fields)
    stances: list[Stance] = []
    records, reasons = in_scope(_relevant(case), need, FIELDS)
    reasons += case.evidence.aside(COMPATIBILITY, OUTCOME)
    for record in records:
        says = _says(record)
        doubts = case.evidence.weak.get(record.id, ())
        if says == "supports" and doubts:
            reasons += doubts
        elif says:
            stances.append(_stance(record, need, says))
    seen, why_not = probes(case, need)
    return [*stances, *seen], [*reasons, *why_not]


def _relevant(case: Case) -> list[Record]:
    return [
        record
        for record in case.evidence.about(COMPATIBILITY, OUTCOME)
        if record.kind in ("document", "measurement") and _says(record)
    ]


def _says(record: Record) -> Says | None:
    """A word on compatibility; without one, a measured run that completed shows it. Two words leave it open."""
    stated = {claim.value for claim in find(record, COMPATIBILITY)}
    if VIOLATED in stated:
        return "violates" if len(stated) == 1 else "doubts"
    if stated == {SATISFIED} or (not stated and record.kind == "measurement" and word(record, OUTCOME) == COMPLETED):
        return "supports"
    return None


def _stance(record: Record, need: Scope, says: Says) -> Stance:
    text = {"supports": VERIFIED, "violates": BROKEN}.get(says, TWO_WORDS)
    return Stance(
        says=says,
        rank=rank(record, need.offer),
        evidence=cite(record),
        reasons=(text(record=record.id[:12], **_names(need)),),
        is_failure=says != "supports",
    )


def _names(need: Scope) -> dict[str, str]:
    return {
        "engine": need.engine or "",
        "version": need.engine_version or "",
        "format": need.weight_format or "",
        "gpu": need.gpu or "",
    }
