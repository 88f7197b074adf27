"""Probes of an environment: a record of what is installed beside a GPU, whatever command wrote it.

It states the version of the engine as `package.NAME`, and the driver, the newest CUDA, the capability and the processor
of the machine. It verifies the combination when it shows the card's release on that GPU, and every rule that applies
is known at that release and met there. One of another release shows nothing.
"""

from __future__ import annotations

import msgspec

from capienza.catalog.capability import GpuTraits, parse_capability
from capienza.catalog.outcome import CPU_ARCH, host_outcomes, outcomes
from capienza.catalog.release import parse_release
from capienza.catalog.rule_texts import NOT_READ
from capienza.catalog.selection import Combination
from capienza.decide.case import Case
from capienza.decide.documents import READ
from capienza.decide.ruling import unread_releases
from capienza.decide.server_rules import PACKAGE_OF
from capienza.decide.verdict import cite
from capienza.decide.weigh import Stance
from capienza.errors import Message, template
from capienza.evidence.claims import word
from capienza.evidence.rank import MEASURED, MEASURED_HERE
from capienza.evidence.record import Record, Scope
from capienza.evidence.scope import first_gap
from capienza.truth import Truth

PACKAGE = "package."
CAPABILITY, GFX = "compute_capability", "gfx_arch"
NO_PROBE = ("prediction", "plan", "outputs", "quality_result", "decision", "waiver", "supersedes", "invalidates")

SHOWN = template(
    "decide.probe-verifies",
    "record {record} shows {engine} {version} beside {gpu}, and every rule that applies is met there",
)
OTHER_VERSION = template(
    "decide.probe-other-version",
    "record {record} shows {engine} {stated}; needed: {needed}",
    "probe an environment with {engine} {needed}",
)
OTHER_OFFER = template(
    "decide.probe-other-offer",
    "record {record} is a probe of {stated}, which is another machine",
    "probe the machine of this offer",
)
OTHER_CAPABILITY = template(
    "decide.probe-other-gpu",
    "record {record} shows {stated}, and {gpu} is {known}",
    "find out which GPU that machine has",
)
LACKS = template(
    "decide.probe-lacks",
    "record {record} does not state {field}, which rules ask for",
    "probe the machine again, with its driver",
)
LEAVES_OPEN = template("decide.probe-leaves-open", "record {record} does not settle it: {reason}")


def probes(case: Case, need: Scope) -> tuple[list[Stance], list[Message]]:
    """Statements of the probes that speak of this GPU, and why others say nothing of it."""
    combination, gpu = case.sizing.combination, case.sizing.traits.get(need.gpu or "")
    stances: list[Stance] = []
    reasons: list[Message] = []
    if combination is None or gpu is None:
        return stances, reasons
    for record in case.evidence.about(PACKAGE + combination.engine):
        if record.kind in NO_PROBE or record.method not in READ:
            continue
        problem = _out_of_scope(record, case, need, combination, gpu)
        if problem is not None:
            reasons.append(problem)
            continue
        stance, why_not = _judge(record, record.scope.offer == case.offer.id, combination, gpu)
        doubts = case.evidence.weak.get(record.id, ())
        if stance is not None and stance.says == "supports" and doubts:
            reasons += doubts
        elif stance is not None:
            stances.append(stance)
        reasons += why_not
    return stances, reasons


def _judge(
    record: Record, is_here: bool, combination: Combination, gpu: GpuTraits
) -> tuple[Stance | None, list[Message]]:
    """What a probe in scope says; one that leaves something open says nothing, with the reasons."""
    short = record.id[:12]
    seen = msgspec.structs.replace(combination, packages=_packages(record))
    found = outcomes(seen, gpu)
    server = host_outcomes(seen, gpu)
    # An engine that is installed there settles what its processor asks of wheels.
    judged = [one for one in (*found, *server) if one.rule is None or one.rule.package != CPU_ARCH]
    against = [one.reason for one in judged if one.truth is not Truth.TRUE]
    why_not: list[Message] = [LEAVES_OPEN(record=short, reason=reason) for reason in against]
    releases = unread_releases(combination, found)
    if releases:
        reason = NOT_READ(engine=combination.engine, version=combination.version or "?", releases=releases)
        why_not.append(LEAVES_OPEN(record=short, reason=reason))
    known = dict(seen.packages)
    if "cuda" in seen.known_packages and gpu.vendor == "NVIDIA" and not {"driver", "cuda_max"} & set(known):
        why_not.append(LACKS(record=short, field="driver_version"))
    if why_not:
        return None, why_not
    shown = SHOWN(record=short, engine=combination.engine, version=combination.version or "", gpu=gpu.name)
    rank = MEASURED_HERE if is_here else MEASURED
    return Stance(says="supports", rank=rank, evidence=cite(record), reasons=(shown,)), []


def _out_of_scope(record: Record, case: Case, need: Scope, combination: Combination, gpu: GpuTraits) -> Message | None:
    short, scope = record.id[:12], record.scope
    gap = first_gap(record, need, ("gpu",))
    if gap is not None:
        return gap
    if scope.offer not in (None, case.offer.id) or scope.provider not in (None, case.offer.provider):
        return OTHER_OFFER(record=short, stated=scope.offer or scope.provider or "")
    stated = word(record, PACKAGE + combination.engine) or ""
    if combination.version is None or not _is_same_release(stated, combination):
        needed = combination.version or "?"
        return OTHER_VERSION(record=short, engine=combination.engine, stated=stated or "?", needed=needed)
    for shown in (word(record, CAPABILITY), word(record, GFX)):
        if shown is not None and _is_other(shown, gpu):
            return OTHER_CAPABILITY(record=short, stated=shown, gpu=gpu.name, known=gpu.found)
    return None


def _is_other(shown: str, gpu: GpuTraits) -> bool:
    """Is this the capability, or the gfx name, of another GPU?"""
    capability = parse_capability(shown)
    if capability is None:
        return bool(gpu.gfx) and shown != gpu.gfx
    return gpu.capability is not None and capability != gpu.capability


def _is_same_release(stated: str, combination: Combination) -> bool:
    """The very release, as its numbers say; of versions without numbers, the same text."""
    found, needed = parse_release(stated), combination.release
    if found is None or needed is None:
        return stated.casefold() == (combination.version or "").casefold()
    width = max(len(found), len(needed))
    return found + (0,) * (width - len(found)) == needed + (0,) * (width - len(needed))


def _packages(record: Record) -> tuple[tuple[str, str], ...]:
    """What the probe found, by the names of rules; what it states in two ways it does not state."""
    names = {claim.quantity: claim.quantity.removeprefix(PACKAGE) for claim in record.claims
             if claim.quantity.startswith(PACKAGE)}  # fmt: skip
    found = {name: word(record, quantity) for quantity, name in (*names.items(), *PACKAGE_OF.items())}
    return tuple(sorted((name, version) for name, version in found.items() if version is not None))
