"""A log from its bytes to the diagnosis."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from capienza.diagnose.advice import examined, kept
from capienza.diagnose.arithmetic import explained
from capienza.diagnose.causes import cause_of
from capienza.diagnose.choose import Event, event_of
from capienza.diagnose.diagnosis import Diagnosis, Seen
from capienza.diagnose.gather import Gathered, Gatherer
from capienza.diagnose.phases import place_of
from capienza.errors import template
from capienza.logs.reader import LogReader

NOT_LISTED = template("diagnose.not-listed", "{count} further failing lines are not listed")
MOST_SEEN = 20
"""Kinds of failing lines that are listed."""


def diagnose_log(chunks: Iterable[bytes], log: str = "-") -> Diagnosis:
    """The diagnosis of a log that comes in pieces of any size. Memory does not grow with the log."""
    reader, gatherer = LogReader(), Gatherer()
    for chunk in chunks:
        gatherer.add(reader.feed(chunk))
    gatherer.add(reader.close())
    gathered = gatherer.finished()
    gathered.lines = reader.lines
    return diagnosis_of(gathered, log)


def diagnosis_of(gathered: Gathered, log: str) -> Diagnosis:
    """What the facts of a log mean together."""
    event = event_of(gathered)
    seen = tuple(
        Seen(one.row.code, one.line, one.text, one.count, one.last_line, one.is_fatal)
        for one in gathered.failures[:MOST_SEEN]
    )
    hidden = sum(one.count for one in gathered.failures[MOST_SEEN:]) + gathered.unlisted
    notes = (NOT_LISTED(count=hidden),) if hidden else ()
    if event is None:
        return Diagnosis(log=log, is_failure=False, lines=gathered.lines, memory="no", seen=seen)
    failure = event.failure
    place = place_of(failure, event.beside)
    figures = figures_of(event, gathered)
    then = at_that_moment(figures, event)
    cause, memory = cause_of(event, place, then)
    found = Diagnosis(
        log=log, is_failure=True, phase=place.phase, cause=cause, memory=memory, is_fatal=event.is_fatal,
        detail=next((one.row.detail for one in (failure, *event.beside) if one.row.detail), None),
        gpu_index=figures.get("gpu"), evidence=failure.text, evidence_line=failure.line, evidence_lines=failure.count,
        last_line=failure.last_line, phase_evidence=place.evidence, phase_line=place.line, source=failure.source,
        notes=notes, confidence=place.confidence, seen=seen, lines=gathered.lines,
        requested_bytes=figures.get("requested_bytes"), total_bytes=figures.get("total_bytes"),
        free_bytes=figures.get("free_bytes"), allocated_bytes=figures.get("allocated_bytes"),
        reserved_unallocated_bytes=figures.get("reserved_unallocated_bytes"),
        reserved_total_bytes=figures.get("reserved_total_bytes"),
        other_process_bytes=figures.get("other_process_bytes"),
    )  # fmt: skip
    return msgspec.structs.replace(found, explains=explained(found, then), examine=examined(found), keep=kept(found))


def figures_of(event: Event, gathered: Gathered) -> dict[str, int]:
    """The figures of one event: those of the failing line first, then of the lines beside it, then the engine's own."""
    found = dict(event.failure.figures)
    for one in event.beside:
        for name, value in one.figures.items():
            if name not in found or (one.row.unit == "B" and _is_same(value, found[name])):
                found[name] = value
    if "gpu" in gathered.figures:
        found.setdefault("gpu", gathered.figures["gpu"])
    if "allocated_bytes" not in found or "total_bytes" not in found:
        for name, value in gathered.figures.items():
            found.setdefault(name, value)
    return found


def at_that_moment(figures: dict[str, int], event: Event) -> dict[str, int]:
    """The figures that may be set against each other: what was free earlier was not free when the failure came."""
    stated = {name for one in (event.failure, *event.beside) for name in one.figures}
    if "requested_bytes" in stated and "free_bytes" not in stated:
        return {name: value for name, value in figures.items() if name != "free_bytes"}
    return figures


def _is_same(exact: int, rounded: int) -> bool:
    """One figure printed twice, in bytes and in MiB with two decimals."""
    return abs(exact - rounded) <= 2**13
