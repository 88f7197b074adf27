"""What rules say of the server of one offer: its driver, its newest CUDA, its ROCm, its processor.

A property counts as its document states it, or as it was read on the machine; of two statements of equal rank that
disagree neither does. A run that completed on the very offer outweighs what a document says of its driver.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.catalog.capability import GpuTraits
from capienza.catalog.outcome import Outcome, host_outcomes
from capienza.decide.case import Case
from capienza.decide.documents import Stated, stated_values
from capienza.decide.verdict import Finding
from capienza.decide.weigh import Says, Stance, merge, weigh
from capienza.errors import Message, template
from capienza.evidence.record import Scope
from capienza.truth import Truth, all_of

PACKAGE_OF = {"driver_version": "driver", "cuda_max": "cuda_max", "rocm": "rocm", "cpu_arch": "cpu_arch"}
"""Properties of an offer's host, and of a probe, as rules name them."""
FACTS = (("driver_version", "cuda_max"), ("rocm",), ("cpu_arch",))
"""Properties that tell of the same thing together: the newest CUDA of a host is one of its driver."""
SAYS: dict[Truth, Says] = {Truth.TRUE: "supports", Truth.UNKNOWN: "doubts", Truth.FALSE: "violates"}
UNDOCUMENTED = template(
    "decide.server-undocumented",
    "the offer states {field} {stated} without a document that counts: {reason}",
    "name the document that it was read from, in the offers file",
)
FAILS = template(
    "decide.probe-fails",
    "record {record} shows an environment that cannot run it: {reason}",
    "change the environment, or choose another offer",
)
SETTLE_SERVER = template(
    "decide.settle-server",
    "a probe of the server of this offer, or a short run that completes there",
    "ask the seller for access to it, and put a record into the evidence folder",
)


def server_finding(case: Case, need: Scope, here: Sequence[Stance]) -> Finding:
    """What follows from the server's stated properties; `here` are supports by runs on this very offer."""
    gpu = case.sizing.traits.get(need.gpu or "")
    if gpu is None or case.sizing.combination is None:
        return Finding(truth=None)
    found = [_judge_facts(case, gpu, facts, here) for facts in FACTS]
    return merge([one for one in found if one is not None])


def _judge_facts(case: Case, gpu: GpuTraits, facts: Sequence[str], here: Sequence[Stance]) -> Finding | None:
    """The properties that tell of one thing; None where nothing speaks against it."""
    stances: list[Stance] = []
    undocumented: list[Message] = []
    for field in facts:
        offered = getattr(case.offer.host, field)
        if offered is not None and case.document is None:
            bad = [one.reason for one in _asked(case, gpu, field, offered) if one.truth is not Truth.TRUE]
            undocumented += [UNDOCUMENTED(field=f"host.{field}", stated=offered, reason=reason) for reason in bad]
        for stated in stated_values(case, field, offered):
            stance = _stance(case, gpu, field, stated)
            stances += [stance] if stance else []
    if all(stance.says == "supports" for stance in stances) and not undocumented:
        return None
    finding = weigh([*stances, *here])
    if finding.truth is Truth.FALSE:
        return finding
    if finding.truth is Truth.TRUE and not undocumented:
        return Finding(truth=None, reasons=finding.reasons, failures=finding.failures)
    return msgspec.structs.replace(
        finding,
        truth=Truth.UNKNOWN,
        reasons=(*finding.reasons, *undocumented),
        settle=finding.settle or (SETTLE_SERVER(),),
    )


def _asked(case: Case, gpu: GpuTraits, field: str, value: str) -> tuple[Outcome, ...]:
    """What the rules say of one property; what the GPU alone tells of its processor is no news of this server."""
    combination, package = case.sizing.combination, PACKAGE_OF[field]
    if combination is None or (package == "cpu_arch" and value == gpu.cpu_arch):
        return ()
    key = ("server rules", gpu, package, value)
    known: tuple[Outcome, ...] | None = case.shared.get(key)
    if known is None:
        asked = msgspec.structs.replace(combination, packages=((package, value),))
        found = (one for one in host_outcomes(asked, gpu) if one.rule is not None and one.rule.package == package)
        known = case.shared[key] = tuple(found)
    return known


def _stance(case: Case, gpu: GpuTraits, field: str, stated: Stated) -> Stance | None:
    """What all rules together say of one stated value; None where none asks for it, or it cannot support."""
    found = _asked(case, gpu, field, str(stated.value))
    truth = all_of(one.truth for one in found)
    if not found or (truth is Truth.TRUE and stated.doubts):
        return None
    reasons = tuple(one.reason for one in found if one.truth is truth)
    if stated.is_read and truth is Truth.FALSE:
        reasons = tuple(FAILS(record=stated.evidence.id[:12], reason=reason) for reason in reasons)
    return Stance(
        says=SAYS[truth],
        rank=stated.rank,
        evidence=stated.evidence,
        reasons=reasons,
        settle=(SETTLE_SERVER(),) if truth is Truth.UNKNOWN else (),
    )
