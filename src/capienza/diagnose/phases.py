"""Which phase failed: what the failing line itself says, then the call stack, then the engine's last words before."""

from __future__ import annotations

import msgspec

from capienza.diagnose.choose import NEAR_LINES
from capienza.diagnose.diagnosis import Confidence
from capienza.diagnose.gather import Failure
from capienza.diagnose.stack import Found, phase_of

OVER_ALL = ("environment", "startup", "communication", "data")
"""Phases that a failing line settles whatever the stack: a missing kernel surfaces in a forward pass, and is none."""
PASSING = ("data", "eval", "checkpoint")
"""Phases that a run passes through and whose end few programs print: words long before do not tell."""
ASYNCHRONOUS = ("cuda.illegal-access", "cuda.assert", "cuda.assertion", "cuda.launch", "cuda.xid")
"""Faults of a kernel that surface in a later call: the stack is that of whoever asked next."""


class Place(msgspec.Struct, frozen=True):
    """A phase with the line that tells it."""

    phase: str
    line: int | None
    evidence: str
    confidence: Confidence
    topic: str = ""


UNKNOWN = Place("unknown", None, "", "low")


def place_of(failure: Failure, beside: list[Failure]) -> Place:
    """The phase of a failure; `beside` are the other lines of the same event, which may say more."""
    found = None if failure.row.code in ASYNCHRONOUS else stack_of(failure)
    topic = found.topic if found else ""
    if found is not None and found.is_teardown:  # it fails because something else did
        return UNKNOWN
    for one in (failure, *beside):
        if one.row.phase and (one.row.rank in ("cause", "error") or one is failure):
            is_sure = one.row.phase in OVER_ALL or found is None or found.is_weak or one is failure
            if is_sure:
                return Place(one.row.phase, one.line, one.text, "high" if one.row.rank == "cause" else "medium", topic)
    if found is not None and not found.is_weak and found.phase != "unknown":
        return Place(found.phase, found.frame.line, found.frame.code or found.frame.function, "high", topic)
    marked = _marked(failure, found)
    if marked is not None:
        return msgspec.structs.replace(marked, topic=topic)
    if found is not None:
        return Place(found.phase, found.frame.line, found.frame.code or found.frame.function, "medium", topic)
    outer = next((one for one in beside if one.row.phase and one.row.rank == "consequence"), None)
    return Place(outer.row.phase, outer.line, outer.text, "low", topic) if outer else UNKNOWN


def stack_of(failure: Failure) -> Found | None:
    """What the failure's stack says: the calls before it; where they are not whole, the ones after it are the outer."""
    before = failure.before
    if failure.is_whole:
        return phase_of(before)
    return phase_of([*failure.after, *before]) if before or failure.after else None


def _marked(failure: Failure, found: Found | None) -> Place | None:
    mark = failure.mark
    if mark is None or not mark.phase:
        return None
    if found is not None and not found.is_weak and found.phase != "unknown":
        return None
    is_near = failure.line - mark.line <= NEAR_LINES
    if not is_near and mark.phase in PASSING:
        return None
    return Place(mark.phase, mark.line, mark.text, "medium" if is_near else "low")
