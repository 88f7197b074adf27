"""The appendix of a decision: every record and document with its full digest, every calculation entry by entry."""

from __future__ import annotations

from capienza.canon import digest
from capienza.decide.dossier import Detail, Dossier
from capienza.decide.verdict import EvidenceRef
from capienza.evidence.record import Claim, Record
from capienza.evidence.scope import scope_text
from capienza.i18n.translator import Say
from capienza.ledger.capacity import Capacity
from capienza.ledger.ledger import Ledger
from capienza.records.classes import CLASS, class_of
from capienza.report.blocks import Address, Block, Cell, Heading, Lines, Mark, Table, Text
from capienza.report.evidence import CLASS_LABELS
from capienza.report.labels import ENTRY_LABELS, STATUS_LABELS, label
from capienza.report.size import alike_entries, phases_text, range_cells, status_name
from capienza.report.sources import Sources

KEPT_CLAIMS = 40
"""Claims of one record that the appendix lists."""


def evidence_blocks(dossier: Dossier, sources: Sources, say: Say) -> list[Block]:
    """Every record and document that the document cites, and how many of the set it does not."""
    blocks: list[Block] = [Heading(say("Appendix: records and documents"), anchor="evidence")]
    addresses = {
        detail.offer.document.id: detail.offer.document.source
        for detail in dossier.shown.values()
        if detail.offer.document is not None and detail.offer.document.source
    }
    rows, anchors = [], []
    for reference, name in sources.evidence.items():
        rows.append(_evidence(reference, name, dossier, addresses, say))
        anchors.append(name.lower())
    records = sum(reference.id in dossier.records for reference in sources.evidence)
    if rows:
        blocks.append(
            Table(
                columns=(say("mark"), say("what it is"), say("scope"), say("dates"), say("what it states")),
                rows=tuple(rows),
                anchors=tuple(anchors),
                title=say(
                    "Records cited: {cited} of {count}; documents and rules cited: {others}",
                    cited=say.number(records),
                    count=say.number(len(dossier.records)),
                    others=say.number(len(rows) - records),
                ),
            )
        )
    return blocks


def _evidence(
    reference: EvidenceRef, name: str, dossier: Dossier, addresses: dict[str, str], say: Say
) -> tuple[Cell, ...]:
    record = dossier.records.get(reference.id)
    kind = _kind(reference, record, say)
    what: list[Text] = [
        say("kind: {kind}", kind=kind),
        *(() if record is not None else (reference.id,)),
        say("version: {version}", version=reference.version or say("not stated")),
        say("sha256: {sha256}", sha256=reference.sha256 or say("not known")),
    ]
    if record is not None and record.producer:
        what.append(", ".join(f"{key}={value}" for key, value in sorted(record.producer.items()) if key != CLASS))
    if record is None and reference.id in addresses:
        what.append((Address(addresses[reference.id]),))
    date = say("not stated") if reference.date is None else say.moment(reference.date)
    end = reference.expires and say("ends {moment}", moment=say.moment(reference.expires))
    dates = (say("of {moment}", moment=date), end or say("no end stated"))
    scope = reference.scope if record is None else scope_text(record.scope)
    is_offered = any(
        detail.offer.document is not None and detail.offer.document.id == reference.id
        for detail in dossier.shown.values()
    )
    stated = say("the terms of the offer") if is_offered else say("what the reasons that cite it say")
    return (name, Lines(tuple(what)), scope, Lines(dates), stated if record is None else _claims(record, say))


def _kind(reference: EvidenceRef, record: Record | None, say: Say) -> str:
    if record is not None:
        return say(CLASS_LABELS[class_of(record)])
    return say("rule of compatibility") if reference.id.startswith("rule ") else say("document")


def _claims(record: Record, say: Say) -> Cell:
    lines = [_claim(claim, say) for claim in record.claims[:KEPT_CLAIMS]]
    if len(record.claims) > KEPT_CLAIMS:
        lines.append(say("and {count} more", count=say.number(len(record.claims) - KEPT_CLAIMS)))
    return Lines((*lines, *record.notes))


def _claim(claim: Claim, say: Say) -> str:
    value = say.size(claim.value) if claim.unit == "B" and isinstance(claim.value, int) else str(claim.value)
    unit = f" {claim.unit}" if claim.unit and claim.unit != "B" else ""
    gpu = None if claim.gpu_index is None else f"gpu:{claim.gpu_index}"
    where = ", ".join(part for part in (claim.phase, claim.counter, gpu, claim.basis) if part)
    return f"{claim.quantity} = {value}{unit}" + (f" ({where})" if where else "")


def calculation_blocks(dossier: Dossier, sources: Sources, say: Say) -> list[Block]:
    """Every calculation: what it was compared with, and the entries of its ledger; equal ledgers are shown once."""
    details = {sources.calculated[name]: one for name, one in dossier.shown.items() if name in sources.calculated}
    ledgers: dict[str, tuple[str, Ledger]] = {}
    rows = []
    for sha256, name in sources.calculations.items():
        ledger = details[name].sizing.ledger
        assert ledger is not None  # only what has a ledger is numbered
        number, _ = ledgers.setdefault(digest(ledger), (f"L{len(ledgers) + 1}", ledger))
        rows.append(_calculation(name, details[name], Mark(number), sha256, say))
    if not rows:
        return []
    table = Table(
        columns=(say("mark"), "GPU", say("usable for a fit"), say("usable for exclusion"), say("ledger"), "sha256"),
        rows=tuple(rows),
        numeric=(2, 3),
        anchors=tuple(name.lower() for name in sources.calculations.values()),
        title=say("Calculations: a ledger against the capacity of a GPU"),
    )
    blocks: list[Block] = [Heading(say("Appendix: calculations"), anchor="calculations"), table]
    for number, ledger in ledgers.values():
        heading = Heading(say("Ledger {mark}, per GPU", mark=number), 3, number.lower())
        blocks += [heading, _ledger(Mark(number), ledger, say)]
    return blocks


def _calculation(name: str, detail: Detail, ledger: Mark, sha256: str, say: Say) -> tuple[Cell, ...]:
    capacity, claim = detail.sizing.capacity, detail.offer.gpu
    fit, exclusion = _capacities(capacity, say)
    return (name, claim.name_raw, fit, exclusion, (ledger,), sha256)


def _capacities(capacity: Capacity | None, say: Say) -> tuple[Cell, Cell]:
    if capacity is None:
        return say("unknown"), say("unknown")
    smallest, largest = capacity.smallest_usable_bytes, capacity.largest_usable_bytes
    return (
        Lines((say("unknown") if smallest is None else say.size(smallest), say.message(capacity.smallest_basis))),
        Lines((say("unknown") if largest is None else say.size(largest), say.message(capacity.largest_basis))),
    )


def _ledger(name: Mark, ledger: Ledger, say: Say) -> Table:
    everywhere = {phase for entry in ledger.entries for phase in entry.phases}
    rows: list[tuple[Cell, ...]] = []
    for entry, devices in alike_entries(ledger):
        basis = [say.message(one) for one in (entry.formula, entry.source, entry.expected_proof) if one is not None]
        rows.append(
            (
                f"{name.label}.{len(rows) + 1} {say(label(ENTRY_LABELS, entry.name))}",
                f"{phases_text(entry, everywhere, say)}, {devices}",
                *range_cells(entry.amount, say),
                say(STATUS_LABELS[status_name(entry)]),
                Lines(tuple(basis)),
            )
        )
    columns = (
        say("entry"),
        say("phases"),
        say("floor"),
        say("expected"),
        say("ceiling"),
        say("origin"),
        say("formula"),
    )
    return Table(
        columns=columns,
        rows=tuple(rows),
        numeric=(2, 3, 4),
        title=say("Entries of {mark}", mark=name.label),
        anchors=tuple(f"{name.anchor}.{number}" for number in range(1, len(rows) + 1)),
    )
