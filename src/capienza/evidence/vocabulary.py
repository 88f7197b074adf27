"""What a claim may say: the closed lists behind the quantities that verdicts are made from.

A reading that nobody understands would be dropped, and the rest of its record would count as if it were not there. So
it is refused when the record is made, and again when it is read.
"""

from __future__ import annotations

from capienza.errors import Message, template
from capienza.evidence.claims import (
    ANY,
    COMPLETED,
    CONTEXT,
    DROPPED,
    OUT_OF_MEMORY,
    OUTCOME,
    PEAK,
    PLANNED_RUNS,
    POOL,
    SATISFIED,
    TRUNCATED,
    VIOLATED,
    WAIVED,
    author,
    has_reason,
    is_whole,
)
from capienza.evidence.drivers import is_range
from capienza.evidence.record import Claim, Record
from capienza.units import MAX_BYTES

FAILED = "failed"
OUTCOMES = (COMPLETED, OUT_OF_MEMORY, FAILED)
COUNTERS = ("allocated", "reserved", "process", "device")
PHASES = (
    "startup", "load", "profile_warmup", "graph_capture", "kv_cache_allocation", "prefill", "decode", "forward",
    "backward", "optimizer_step_first", "optimizer_step_steady", "eval", "checkpoint", "export", "communication",
    "data", "environment", "unknown",
)  # fmt: skip
"""The phases of the ledger, which stands on a higher floor; a test compares the two."""
CRITERIA = ("workload", "compatibility", "memory", "quality", "placement", "budget")
"""The criteria of a decision, which stands on a higher floor; a test compares the two."""
COUNTS = (TRUNCATED, DROPPED, POOL)
"""Quantities that are counted: one that is not a number would not be heard."""
BYTES = "B"
MAX_RUNS = 10_000

BAD_CLAIM = template(
    "evidence.claim-not-understood",
    "the {part} of {quantity} is {found}; accepted: {accepted}",
    "write the record again as the how-to on evidence shows",
)
WAIVER_INCOMPLETE = template(
    "evidence.waiver-incomplete",
    "a waiver needs {missing}",
    "write who answers for it, why, until when, and at least one criterion",
)
BAD_DRIVER = template(
    "evidence.driver-not-understood",
    "scope.driver is {found}, which is neither a version nor a range that one can be within",
    "write it as 550.54.15, or as >=550,<590",
)


def misunderstood(record: Record) -> Message | None:
    """The first thing in the record that cannot be understood; None when all can."""
    if record.scope.driver not in (None, ANY) and not is_range(record.scope.driver or ""):
        return BAD_DRIVER(found=record.scope.driver[:64])
    if record.kind == "waiver":
        return _bad_waiver(record)
    outcomes = {claim.value for claim in record.claims if claim.quantity == OUTCOME}
    if len(outcomes) > 1:
        return BAD_CLAIM(part="value", quantity=OUTCOME, found=", ".join(sorted(map(str, outcomes))), accepted="1")
    return next((problem for claim in record.claims if (problem := _problem(claim)) is not None), None)


def _problem(claim: Claim) -> Message | None:
    if claim.quantity == OUTCOME:
        return _one_of(claim, "value", claim.value, OUTCOMES)
    if claim.quantity == PLANNED_RUNS:
        return _whole(claim, 1, MAX_RUNS)
    if claim.quantity == CONTEXT:
        return _whole(claim, 0, MAX_BYTES) or _one_of(claim, "unit", claim.unit, (BYTES,))
    if claim.quantity == PEAK:
        return (
            _whole(claim, 1, MAX_BYTES)
            or _one_of(claim, "unit", claim.unit, (BYTES,))
            or _one_of(claim, "counter", claim.counter, COUNTERS)
            or _one_of(claim, "phase", claim.phase, PHASES)
        )
    if isinstance(claim.value, int) or (claim.quantity in COUNTS and not is_whole(claim.value)):
        return _whole(claim, 0, MAX_BYTES)
    word = str(claim.value).strip().casefold()
    return _one_of(claim, "value", claim.value, (word,)) if word in (SATISFIED, VIOLATED) else None


def _bad_waiver(record: Record) -> Message | None:
    """A waiver that nobody signs, that never ends or that names no criterion stops the run at once."""
    present = {
        "author": bool(author(record)),
        "reason": has_reason(record),
        "expires": record.expires is not None,
        "criteria": bool(record.claims),
    }
    missing = [field for field, is_present in present.items() if not is_present]
    if missing:
        return WAIVER_INCOMPLETE(missing=missing)
    for claim in record.claims:
        if claim.quantity not in CRITERIA:
            return BAD_CLAIM(part="quantity", quantity="waiver", found=claim.quantity[:64], accepted=CRITERIA)
        if claim.value != WAIVED:
            return _one_of(claim, "value", claim.value, (WAIVED,))
    return None


def _one_of(claim: Claim, part: str, found: object, accepted: tuple[str, ...]) -> Message | None:
    if found in accepted:
        return None
    return BAD_CLAIM(part=part, quantity=claim.quantity, found=str(found)[:64], accepted=accepted)


def _whole(claim: Claim, smallest: int, largest: int) -> Message | None:
    if isinstance(claim.value, int) and smallest <= claim.value <= largest:
        return None
    shown = str(claim.value)[:64] if isinstance(claim.value, str) or claim.value.bit_length() < 1000 else "..."
    return BAD_CLAIM(part="value", quantity=claim.quantity, found=shown, accepted=f"{smallest} .. {largest}")
