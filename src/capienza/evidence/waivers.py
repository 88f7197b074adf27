"""Waivers beside the failures on record: what is measured or documented to fail, no waiver covers.

The verdict is the decision's, offer by offer; this says beforehand which waivers of a folder meet a failure, by the
fields that both scopes state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from capienza.errors import Message, template
from capienza.evidence.claims import (
    COMPATIBILITY,
    DROPPED,
    OUT_OF_MEMORY,
    OUTCOME,
    TRUNCATED,
    VIOLATED,
    find,
    wholes,
    word,
)
from capienza.evidence.record import Record
from capienza.evidence.scope import BOUNDS, FIELDS, gaps
from capienza.evidence.vocabulary import FAILED

VOID = template(
    "evidence.waiver-void",
    "void wherever record {record} speaks: it is a failure of {criterion}, and no waiver covers one",
    "show that the failure is wrong and withdraw it, or choose otherwise",
)
_COMPARED = tuple(field for field in FIELDS if field not in (*BOUNDS, "driver"))


def failures_met(waiver: Record, records: Iterable[Record]) -> tuple[Message, ...]:
    """A message for each criterion of the waiver and each record that is a failure of it within the same scope."""
    criteria = [claim.quantity for claim in waiver.claims]
    return tuple(
        VOID(record=record.id[:12], criterion=criterion)
        for record in records
        for criterion in _failed(record)
        if criterion in criteria and _meets(waiver, record)
    )


def _failed(record: Record) -> Iterator[str]:
    if record.kind == "measurement":
        outcome = word(record, OUTCOME)
        if outcome in (OUT_OF_MEMORY, FAILED) or any(any(wholes(record, cut)) for cut in (TRUNCATED, DROPPED)):
            yield "workload"
        if outcome == OUT_OF_MEMORY:
            yield "memory"
    stated = [claim.value for claim in find(record, COMPATIBILITY)]
    if record.kind in ("measurement", "document") and VIOLATED in stated:
        yield "compatibility"
    if record.kind == "quality_result" and any(claim.value == VIOLATED for claim in record.claims):
        yield "quality"


def _meets(waiver: Record, failure: Record) -> bool:
    both = [
        field
        for field in _COMPARED
        if getattr(waiver.scope, field) is not None and getattr(failure.scope, field) is not None
    ]
    return not gaps(failure, waiver.scope, both)
