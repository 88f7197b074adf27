"""The records of a folder as documents: one in full, what was added, and what does not verify. All: evidence_list."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from capienza.errors import CapienzaError, Message
from capienza.evidence.record import Claim, Record
from capienza.evidence.scope import scope_text
from capienza.evidence.survey import Surveyed
from capienza.i18n.translator import Say, mark
from capienza.records.classes import class_of
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.messages import sentence

CLASS_LABELS = {
    "commercial_sheet": mark("commercial sheet"),
    "software_page": mark("official software page"),
    "environment_probe": mark("environment probe"),
    "calculation": mark("calculation"),
    "measurement": mark("measurement"),
    "evaluation": mark("evaluation"),
    "plan": mark("plan"),
    "waiver": mark("waiver"),
    "supersedes": mark("supersedes"),
    "invalidates": mark("invalidates"),
    "document": mark("document"),
    "prediction": mark("prediction"),
    "outputs": mark("outputs"),
    "quality_result": mark("quality result"),
    "decision": mark("decision"),
}
STATE_LABELS = {
    "counts": mark("counts"),
    "weak": mark("weak"),
    "void": mark("void"),
    "expired": mark("expired"),
    "future": mark("not yet"),
    "superseded": mark("superseded"),
    "invalidated": mark("invalidated"),
    "unsigned": mark("unsigned"),
}
SHORT = 12


def added_document(record: Record, path: Path, is_new: bool, notes: tuple[Message, ...], say: Say) -> Document:
    """What was added, or that it was there already."""
    text = mark("Added as {path}.") if is_new else mark("It was there already, nothing changed: {path}.")
    blocks: list[Block] = [Paragraph(say(text, path=str(path))), _facts(record, say)]
    if record.claims:
        blocks.append(claims_table(record, say))
    return (*blocks, *notes_blocks(notes, say))


def show_document(row: Surveyed, referring: Iterable[Record], path: Path, say: Say) -> Document:
    """Everything of one record."""
    record = row.record
    blocks: list[Block] = [Heading(f"{say(CLASS_LABELS[class_of(record)])} {record.id[:SHORT]}", 1)]
    blocks += [_facts(record, say), *([claims_table(record, say)] if record.claims else [])]
    standing = [say(STATE_LABELS[row.state]), *(sentence(reason, say) for reason in row.reasons)]
    blocks += [Heading(say("Standing")), Items(tuple(standing))]
    names = tuple(f"{other.id}: {say(CLASS_LABELS[class_of(other)])}" for other in referring)
    blocks += [Heading(say("Records that refer to it")), Items(names or (say("none"),))]
    return (*blocks, Paragraph(str(path)))


def verify_document(
    count: int,
    root: str,
    problems: tuple[CapienzaError, ...],
    rechecked: tuple[str, ...],
    not_rechecked: tuple[Message, ...],
    findings: tuple[Message, ...],
    say: Say,
) -> Document:
    """How many records verify, the root of their set, and everything that does not."""
    blocks: list[Block] = [Paragraph(say("Records that verify: {count}. Root: {root}", count=count, root=root))]
    if problems:
        items = tuple(_problem(problem, say) for problem in problems)
        blocks += [Heading(say("What does not verify")), Items(items)]
    if rechecked:
        again = tuple(say("decision {record} comes out again", record=identity) for identity in rechecked)
        blocks += [Heading(say("Decided again")), Items(again)]
    if not_rechecked:
        items = tuple(sentence(message, say) for message in not_rechecked)
        blocks += [Heading(say("Not decided again")), Items(items)]
    return (*blocks, *notes_blocks(findings, say))


def export_document(folder: Path, count: int, root: str, say: Say) -> Document:
    """What was written."""
    return (
        Paragraph(
            say("{folder}: an RO-Crate of {count} records, each also as an in-toto statement.", folder=str(folder),
                count=say.number(count))
        ),
        Paragraph(say("Root: {root}", root=root)),
    )  # fmt: skip


def claims_table(record: Record, say: Say) -> Table:
    """What a record states."""
    rows = tuple(
        (
            claim.quantity,
            claim_text(claim, say),
            claim.phase or "",
            claim.counter or "",
            "" if claim.gpu_index is None else str(claim.gpu_index),
            claim.basis or "",
        )
        for claim in record.claims
    )
    columns = (say("quantity"), say("value"), say("phase"), say("counter"), "GPU", say("basis"))
    return Table(columns=columns, rows=rows, whole=(0, 1))


def claim_text(claim: Claim, say: Say) -> str:
    """The value of a claim; bytes as a size."""
    if isinstance(claim.value, int) and claim.unit == "B":
        return say.size(claim.value)
    return f"{say.decimals(str(claim.value))} {claim.unit}" if claim.unit else str(claim.value)


def _facts(record: Record, say: Say) -> Table:
    stated = [
        ("id", record.id),
        (say("document"), say(CLASS_LABELS[class_of(record)])),
        (say("kind of record"), record.kind),
        (say("version"), record.version),
        (say("date"), record.date.isoformat()),
        (say("expires"), say("never") if record.expires is None else record.expires.isoformat()),
        (say("scope"), scope_text(record.scope) or say("not stated")),
        (say("method"), f"{record.method}, {record.mode}"),
    ]
    stated += [(say(name), record.producer[name]) for name in PRODUCED if name in record.producer]
    for subject in record.subject:
        parts = (subject.name, subject.uri, subject.sha256 and f"sha256:{subject.sha256}")
        stated.append((say("about"), " ".join(part for part in parts if part)))
    stated += [(say("made from"), name) for name in record.inputs]
    stated += [(say("note"), note) for note in record.notes]
    return Table(columns=(say("what"), say("value")), rows=tuple(stated), whole=(0,))


PRODUCED = (mark("source"), mark("fidelity"), mark("author"), mark("tool"))


def _problem(problem: CapienzaError, say: Say) -> str:
    return f"{problem.place}: {sentence(problem.message, say)}"


def notes_blocks(notes: tuple[Message, ...], say: Say) -> tuple[Block, ...]:
    """What must be known besides."""
    if not notes:
        return ()
    return (Heading(say("Notes")), Items(tuple(sentence(note, say) for note in notes)))
