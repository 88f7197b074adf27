"""The records of a folder, one line each: what tells them apart, and what they state in short."""

from __future__ import annotations

import datetime
from collections import Counter

import msgspec

from capienza.errors import Message
from capienza.evidence.claims import (
    COMPATIBILITY,
    COMPLETED,
    CONTEXT,
    DROPPED,
    EXCHANGE_RATE,
    OUT_OF_MEMORY,
    OUTCOME,
    PEAK,
    PLANNED_RUNS,
    POOL,
    SATISFIED,
    TRUNCATED,
    VIOLATED,
    WAIVED,
)
from capienza.evidence.record import Claim, Scope
from capienza.evidence.scope import FIELDS, scope_text
from capienza.evidence.survey import Surveyed
from capienza.evidence.vocabulary import FAILED
from capienza.i18n.translator import Say, mark
from capienza.records.classes import class_of
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.evidence import CLASS_LABELS, SHORT, STATE_LABELS, claim_text, notes_blocks
from capienza.report.labels import label
from capienza.report.messages import sentence

QUANTITIES = {
    OUTCOME: mark("outcome"),
    PEAK: mark("peak"),
    "host_peak_bytes": mark("peak in main memory"),
    CONTEXT: mark("context of the driver"),
    TRUNCATED: mark("inputs truncated"),
    DROPPED: mark("samples dropped"),
    POOL: mark("tokens of the pool"),
    PLANNED_RUNS: mark("runs planned"),
    COMPATIBILITY: mark("compatibility"),
    EXCHANGE_RATE: mark("exchange rate"),
    "samples": mark("samples"),
    "prompt_tokens": mark("tokens of the prompt"),
    "output_tokens": mark("tokens of the answer"),
    "wall_time": mark("time taken"),
    "gpu_reported_bytes": mark("capacity reported"),
    "cuda_total_bytes": mark("CUDA total"),
}
VALUES = {
    COMPLETED: mark("completed"),
    OUT_OF_MEMORY: mark("out of memory"),
    FAILED: mark("failed"),
    SATISFIED: mark("satisfied"),
    VIOLATED: mark("violated"),
    WAIVED: mark("waived"),
}
SHOWN_QUANTITIES = 4


def list_document(rows: tuple[Surveyed, ...], findings: tuple[Message, ...], say: Say) -> Document:
    """One line a record, the newest first; why some do not count stands below."""
    usual = usual_scope([row.record.scope for row in rows])
    columns = (
        "id", say("document"), say("date"), say("expires"), say("scope"), say("what it states"), say("standing"),
    )  # fmt: skip
    table = Table(columns=columns, rows=tuple(_row(row, usual, say) for row in rows), whole=(0, 2, 3))
    reasons = [
        f"{row.record.id[:SHORT]}: {say(STATE_LABELS[row.state])}: {sentence(reason, say)}"
        for row in rows
        for reason in row.reasons
    ]
    blocks: list[Block] = [Paragraph(say("Records: {count}.", count=say.number(len(rows))))]
    if scope_text(usual):
        text = say("Scope where a line says nothing else: {scope}. In full: evidence show ID.", scope=scope_text(usual))
        blocks.append(Paragraph(text))
    blocks += [table] if rows else []
    blocks += [Heading(say("Why some do not count, or not fully")), Items(tuple(reasons))] if reasons else []
    return (*blocks, *notes_blocks(findings, say))


def usual_scope(scopes: list[Scope]) -> Scope:
    """Field by field what more than half of the scopes say; nothing where there is only one."""
    if len(scopes) < 2:
        return Scope()
    found = {}
    for name in FIELDS:
        value, count = Counter(getattr(scope, name) for scope in scopes).most_common(1)[0]
        found[name] = value if count * 2 > len(scopes) else None
    return Scope(**found)


def scope_beside(scope: Scope, usual: Scope, say: Say) -> str:
    """What a scope says otherwise than usual: `name=-` is not stated; one that has little in common stands alone."""
    other = {name: None for name in FIELDS if getattr(scope, name) == getattr(usual, name)}
    lacking = [f"{name}=-" for name in FIELDS if getattr(scope, name) is None and getattr(usual, name) is not None]
    said = scope_text(msgspec.structs.replace(scope, **other))
    beside = ", ".join([*([said] if said else []), *lacking])
    if not lacking:
        return beside
    alone = say("only {scope}", scope=scope_text(scope)) if scope_text(scope) else say("not stated")
    return min(beside, alone, key=len)


def _row(row: Surveyed, usual: Scope, say: Say) -> tuple[str, ...]:
    record = row.record
    return (
        record.id[:SHORT],
        say(CLASS_LABELS[class_of(record)]),
        day(record.date),
        day(record.expires),
        scope_beside(record.scope, usual, say),
        _said(record.claims, say),
        say(STATE_LABELS[row.state]),
    )


def _said(claims: tuple[Claim, ...], say: Say) -> str:
    """Each quantity once; of several figures the largest."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        found.setdefault(claim.quantity, []).append(claim)
    shown = [_quantity(name, same, say) for name, same in [*found.items()][:SHOWN_QUANTITIES]]
    more = len(found) - len(shown)
    return "; ".join([*shown, *([say("more: {count}", count=say.number(more))] if more else [])])


def _quantity(name: str, claims: list[Claim], say: Say) -> str:
    words = say(label(QUANTITIES, name))
    largest = max(claims, key=lambda claim: claim.value if isinstance(claim.value, int) else -1)
    text = say(label(VALUES, str(largest.value))) if largest.unit is None else claim_text(largest, say)
    if len(claims) == 1:
        return f"{words}: {text}"
    return say("{quantity}: {value}, the largest of {count}", quantity=words, value=text, count=say.number(len(claims)))


def day(moment: datetime.datetime | None) -> str:
    """A date for a table."""
    return "" if moment is None else moment.date().isoformat()
