"""One offer in full: the seller's terms, the criteria with their reasons, memory by phase, the bill, the calendar."""

from __future__ import annotations

from capienza.card.model import Calendar
from capienza.catalog.offer import Offer
from capienza.decide.cost import CostPart
from capienza.decide.dossier import Detail
from capienza.decide.run import Decided
from capienza.decide.verdict import CriterionVerdict, Decision
from capienza.evidence.claims import PEAK, find
from capienza.evidence.record import Record
from capienza.i18n.translator import Say
from capienza.ledger.ledger import Ledger, Total
from capienza.report.bill import PART_LABELS, formula_text
from capienza.report.blocks import (
    Bar,
    Block,
    Cell,
    Heading,
    Lines,
    Link,
    Mark,
    Paragraph,
    PeaksChart,
    State,
    Table,
    Text,
    cited,
)
from capienza.report.decide import CRITERION_LABELS, STATE_LABELS, reasons_cell, state_text
from capienza.report.labels import label
from capienza.report.offers import price_text, term_text
from capienza.report.size import total_cells
from capienza.report.sources import CARD, Sources, bill_mark, offer_anchor
from capienza.units import Money

DRIVER_COUNTERS = ("device", "process")


def offer_blocks(detail: Detail, decided: Decided, sources: Sources, say: Say) -> list[Block]:
    """Everything on one offer."""
    offer, decision = detail.offer, detail.decision
    number = sources.offers[offer.id]
    title = f"{offer.id}: {say(STATE_LABELS[decision.state])}"
    return [
        Heading(title, 3, offer_anchor(number)),
        _facts(offer, decision, sources, say),
        *_waivers(decision, sources, say),
        _criteria(decision, sources, say),
        *_memory(detail, decided.records, sources, say),
        _bill(decision, number, sources, say),
        *_calendar(decision, decided, sources, say),
    ]


def _facts(offer: Offer, decision: Decision, sources: Sources, say: Say) -> Table:
    document = offer.document
    marks = sources.marks(
        one for row in decision.criteria for one in row.evidence if document and one.id == document.id
    )
    stated = say("none") if document is None else f"{document.id} {document.version or ''}".strip()
    price = (price_text(offer.price, say), term_text(offer.price, say))
    rows: list[tuple[str, Text]] = [
        (say("seller"), offer.provider),
        ("GPU", f"{offer.gpu.name_raw} x {offer.gpus}"),
        (say("may be"), ", ".join(offer.gpu.candidates) or say("unknown")),
        (say("price"), cited(", ".join(filter(None, price)), marks)),
        (say("document"), cited(stated, marks)),
    ]
    if document is not None and document.retrieved is not None:
        rows.append((say("read on"), cited(say.moment(document.retrieved), marks)))
    if document is not None and document.valid_until is not None:
        rows.append((say("valid until"), cited(say.moment(document.valid_until), marks)))
    title = say("{offer}: the seller's terms", offer=offer.id)
    return Table(columns=(say("what"), say("value")), rows=tuple(rows), title=title)


def _waivers(decision: Decision, sources: Sources, say: Say) -> list[Block]:
    """A waiver is named before anything that it lets pass."""
    return [
        Paragraph(cited((State("waived", say("waived")), f" {_waived_text(row, say)}"), sources.marks((row.waiver,))))
        for row in decision.criteria
        if row.waiver is not None
    ]


def _waived_text(row: CriterionVerdict, say: Say) -> str:
    return f"{say(CRITERION_LABELS[row.criterion])}: {say.message(row.reasons[0])}"


def _criteria(decision: Decision, sources: Sources, say: Say) -> Table:
    rows = [_criterion(row, sources, say) for row in decision.criteria]
    columns = [say("criterion"), say("verdict"), say("reasons and evidence"), say("what settles it")]
    if not any(row.settle for row in decision.criteria):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(
        columns=tuple(columns),
        rows=tuple(rows),
        title=say("{offer}: mandatory criteria", offer=decision.offer),
    )


def _criterion(row: CriterionVerdict, sources: Sources, say: Say) -> tuple[Cell, ...]:
    settle = Lines(tuple(_step(say.message(step), say.hint(step)) for step in row.settle))
    reasons = reasons_cell(row, sources, say)
    if not row.reasons:
        reasons = cited(say("proved by"), sources.marks(row.evidence))
    name = "waived" if row.waiver else row.state
    return (say(CRITERION_LABELS[row.criterion]), (State(name, state_text(row, say)),), reasons, settle)


def _step(text: str, hint: str) -> str:
    return f"{text}: {hint}" if hint else text


def _memory(detail: Detail, records: tuple[Record, ...], sources: Sources, say: Say) -> list[Block]:
    ledger, decision = detail.sizing.ledger, detail.decision
    if ledger is None:
        return [Paragraph(say("No peak was predicted: the reasons stand beside the criterion of memory."))]
    capacity = detail.sizing.capacity
    usable = capacity.smallest_usable_bytes if capacity else None
    device = decision.prediction.device if decision.prediction else ledger.gpus[0]
    readings = _readings(decision, records, sources)
    marks = sources.prediction(decision.offer)
    rows = tuple(
        (
            cited(str(peak.phase), marks),
            *(linked(text, marks) for text in (*total_cells(peak.total, say), _room(peak.total, usable, say))),
            *((_reading_cell(readings.get(peak.phase, []), say),) if readings else ()),
        )
        for peak in ledger.peaks(device)
    )
    title = say("{offer}: memory of {gpu} by phase", offer=decision.offer, gpu=device)
    usable_text = say("unknown") if usable is None else say.size(usable)
    observed = (say("observed"),) if readings else ()
    return [
        Table(
            columns=(
                say("phase"),
                say("floor"),
                say("expected"),
                say("ceiling"),
                say("left at the ceiling"),
                *observed,
            ),
            rows=rows,
            numeric=tuple(range(1, 5)),
            title=title,
        ),
        Paragraph(cited(say("Usable capacity of one GPU: {size}.", size=usable_text), marks)),
        _peaks_chart(title, ledger, device, usable, readings, say),
    ]


def linked(text: str, marks: tuple[Mark, ...]) -> Text:
    """A figure that leads to its source itself, where a mark of its own would be one too many."""
    return (Link(text, marks[0].anchor),) if marks else text


def _room(total: Total, usable_bytes: int | None, say: Say) -> str:
    if usable_bytes is None:
        return say("unknown")
    room_bytes = usable_bytes - total.amount.ceiling
    text = say.size(room_bytes) if room_bytes >= 0 else f"-{say.size(-room_bytes)}"
    return text if total.is_complete else say("at most {size}", size=text)


Reading = tuple[str, int, tuple[Mark, ...]]
"""Counter, largest bytes over the GPUs, and the record."""


def _readings(decision: Decision, records: tuple[Record, ...], sources: Sources) -> dict[str, list[Reading]]:
    """What the records that the memory verdict cites have measured, by phase."""
    cited_ids = {one.id for row in decision.criteria if row.criterion == "memory" for one in row.evidence}
    found: dict[str, list[Reading]] = {}
    for record in records:
        if record.id not in cited_ids:
            continue
        largest: dict[tuple[str, str], int] = {}
        for claim in find(record, PEAK):
            if isinstance(claim.value, int):
                spot = (claim.phase or "unknown", claim.counter or "")
                largest[spot] = max(claim.value, largest.get(spot, 0))
        label = sources.names.get(record.id[:12])
        marks = () if label is None else (Mark(label),)
        for (phase, counter), value in largest.items():
            found.setdefault(phase, []).append((counter, value, marks))
    return found


def _reading_cell(readings: list[Reading], say: Say) -> Cell:
    lines = tuple(cited(f"{say.size(value)} ({counter})", marks) for counter, value, marks in readings)
    return Lines(lines) if lines else say("none")


def _peaks_chart(
    title: str, ledger: Ledger, device: str, usable: int | None, readings: dict[str, list[Reading]], say: Say
) -> PeaksChart:
    def observed(phase: str) -> int | None:
        return max((value for name, value, _ in readings.get(phase, []) if name in DRIVER_COUNTERS), default=None)

    bars = tuple(
        Bar(
            str(peak.phase),
            peak.total.amount.floor,
            peak.total.amount.expected,
            peak.total.amount.ceiling,
            observed(peak.phase),
        )
        for peak in ledger.peaks(device)
    )
    return PeaksChart(
        title=title,
        description=say(
            "For each phase the expected need, its range from floor to ceiling, and the usable capacity. Unknown "
            "entries are in no bar. The figures are those of the table above."
        ),
        bars=bars,
        usable_bytes=usable,
        words=(say("expected"), say("floor to ceiling"), say("observed"), say("usable capacity")),
        axis=say("memory of one GPU, GiB"),
    )


def _bill(decision: Decision, number: int, sources: Sources, say: Say) -> Table:
    cost = decision.cost
    marks = sources.of_criterion(decision, "budget")
    label = bill_mark(number).label
    lines: list[tuple[Cell, ...]] = [_line(part, marks, say) for part in cost.components]
    anchors = [""] * len(lines)
    lines.append((f"{label} {say('total')}", "", _money(cost.minimum, marks, say), _money(cost.planned, marks, say)))
    anchors.append(label.lower())
    for message, kind in (
        *((one, say("missing")) for one in cost.missing),
        *((one, say("note")) for one in cost.notes),
    ):
        lines.append((kind, cited(_step(say.message(message), say.hint(message)), marks), "", ""))
        anchors.append("")
    return Table(
        columns=(say("line of the bill"), say("how it comes about"), say("at least"), say("as planned")),
        rows=tuple(lines),
        numeric=(2, 3),
        title=say("{offer}: the bill", offer=decision.offer),
        anchors=tuple(anchors),
    )


def _line(part: CostPart, marks: tuple[Mark, ...], say: Say) -> tuple[Cell, ...]:
    return (
        say(label(PART_LABELS, part.name)),
        formula_text(part, say),
        _money(part.minimum, marks, say),
        _money(part.planned, marks, say),
    )


def _money(money: Money | None, marks: tuple[Mark, ...], say: Say) -> Text:
    return say("unknown") if money is None else cited(say.money(money), marks)


def _calendar(decision: Decision, decided: Decided, sources: Sources, say: Say) -> list[Block]:
    calendar = decided.card.calendar
    if not isinstance(calendar, Calendar):
        return []
    if decision.finish is None:
        return [Paragraph(cited(say("End of the work: not documented."), (CARD,)))]
    marks = sources.finish(decision)
    text = say("End of the work as documented: {moment}.", moment=say.moment(decision.finish))
    if calendar.deadline is not None:
        text = say(
            "End of the work as documented: {moment}; it must be before {deadline}.",
            moment=say.moment(decision.finish),
            deadline=say.moment(calendar.deadline),
        )
    return [Paragraph(cited(text, marks))]
