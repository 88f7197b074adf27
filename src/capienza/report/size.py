"""The answer of `size` as a document: ledger, peaks, envelopes, the GPU asked for, and one entry explained."""

from __future__ import annotations

from collections.abc import Mapping

from capienza.card.model import Host
from capienza.i18n.translator import Say
from capienza.ledger.counters import HOST, counters_of
from capienza.ledger.entry import Entry
from capienza.ledger.held import HeldRow
from capienza.ledger.ledger import Ledger, Total
from capienza.ledger.phase import Phase
from capienza.predict.answer import GpuFit, Sizing
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.held import held_table
from capienza.report.labels import (
    ENTRY_LABELS,
    INPUT_LABELS,
    NEED_LABELS,
    STATUS_LABELS,
    TASK_LABELS,
    fit_label,
    label,
)
from capienza.report.messages import sentence
from capienza.units import Range

LEDGER_DECIMALS = 3
MANY_PHASES = 4


def size_document(sizing: Sizing, say: Say) -> Document:
    """What a person wants to see: the ledger first, then what follows from it."""
    blocks: list[Block] = [
        Heading(sizing.card.name, 1),
        Paragraph(workload_line(sizing, say)),
        Paragraph(model_line(sizing, say)),
        ledger_table(sizing, say),
        *host_tables(sizing, say),
        peaks_table(sizing, say),
        envelopes_table(sizing, say),
    ]
    if sizing.answer is not None:
        from capienza.report.engine import engine_blocks

        blocks += engine_blocks(sizing.answer, say)
    if sizing.training is not None:
        from capienza.report.training import training_blocks

        blocks += training_blocks(sizing.training, sizing.ledger, sizing.worst_device(), say)
    if sizing.fit is not None:
        blocks += fit_blocks(sizing.fit, sizing, say)
    blocks += missing_blocks(sizing, say)
    blocks += notes_blocks(sizing, say)
    return tuple(blocks)


def notes_blocks(sizing: Sizing, say: Say) -> list[Block]:
    """What the reader of the files, the model and the engine has to say beside the figures."""
    notes = tuple(sentence(note, say) for note in sizing.notes())
    return [Heading(say("Notes")), Items(notes)] if notes else []


def workload_line(sizing: Sizing, say: Say) -> str:
    """Task, length and concurrency in one line; what is not stated is said so."""
    card = sizing.card
    parts = [say(label(TASK_LABELS, card.task))]
    required = card.tokens.required
    parts.append(
        say("required length not stated")
        if required is None
        else say("{tokens} tokens per sequence", tokens=say.number(required.total))
    )
    if card.task == "inference":
        parts.append(
            say("concurrency not stated")
            if card.concurrency is None
            else say("{count} at a time", count=say.number(card.concurrency))
        )
    else:
        parts.append(
            say("microbatch not stated")
            if card.microbatch is None
            else say("microbatch {count}", count=say.number(card.microbatch))
        )
    return ", ".join(parts)


def model_line(sizing: Sizing, say: Say) -> str:
    """Model, revision, size and what was read to know it."""
    model = sizing.model
    parts = [say("Model {name}", name=model.name)]
    if model.revision:
        parts.append(say("revision {revision}", revision=model.revision))
    if model.architecture:
        parts.append(
            say(
                "{kind}, {layers} layers",
                kind=model.architecture.model_type,
                layers=str(len(model.architecture.layers)),
            )
        )
    parameters = sizing.num_parameters()
    if parameters is not None:
        parts.append(say("{count} parameters", count=say.number(parameters)))
    if model.artifact is not None:
        parts.append(
            say(
                "bytes read: {count}, from files: {files}",
                files=str(len(model.artifact.files)),
                count=say.number(model.artifact.bytes_read),
            )
        )
    return "; ".join(parts)


def ledger_table(sizing: Sizing, say: Say) -> Table:
    """Every entry of the GPUs; those with equal lines are shown once."""
    several = len(sizing.ledger.gpus) > 1
    everywhere = {phase for entry in sizing.ledger.entries for phase in entry.phases}
    rows = []
    for entry, devices in alike_entries(sizing.ledger):
        if entry.device == HOST:
            continue
        cells = [say(label(ENTRY_LABELS, entry.name)), phases_text(entry, everywhere, say)]
        if several:
            cells.append(devices)
        rows.append((*cells, *range_cells(entry.amount, say), say(STATUS_LABELS[status_name(entry)])))
    columns = [say("entry"), say("phases"), *([say("GPU")] if several else [])]
    figures = (say("floor"), say("expected"), say("ceiling"))
    first = len(columns)
    return Table(
        columns=(*columns, *figures, say("origin")),
        rows=tuple(rows),
        numeric=tuple(range(first, first + 3)),
        title=say("Ledger, per GPU"),
    )


def host_tables(sizing: Sizing, say: Say) -> list[Table]:
    """What of the ledger lies in main memory: no GPU holds it."""
    entries = sizing.ledger.on(HOST)
    everywhere = {phase for entry in sizing.ledger.entries for phase in entry.phases}
    rows = tuple(
        (
            say(label(ENTRY_LABELS, entry.name)),
            phases_text(entry, everywhere, say),
            *range_cells(entry.amount, say),
            say(STATUS_LABELS[status_name(entry)]),
        )
        for entry in entries
    )
    columns = (say("entry"), say("phases"), say("floor"), say("expected"), say("ceiling"), say("origin"))
    title = say("In main memory, for all GPUs together")
    return [Table(columns=columns, rows=rows, numeric=(2, 3, 4), title=title)] if rows else []


def phases_text(entry: Entry, everywhere: set[Phase], say: Say) -> str:
    """The phases in the order of a run; of nearly all, those that are left out."""
    missing = everywhere - set(entry.phases)
    if not missing:
        return say("all")
    if len(missing) == 1 and len(everywhere) > MANY_PHASES:
        return say("all but {phases}", phases=missing.pop())
    return ", ".join(phase for phase in Phase if phase in entry.phases)


def alike_entries(ledger: Ledger) -> list[tuple[Entry, str]]:
    """The entries of a ledger, those that are equal on several GPUs once, each with its GPUs."""
    lines: dict[tuple[object, ...], list[Entry]] = {}
    for entry in ledger.entries:
        lines.setdefault((entry.name, entry.phases, entry.amount, entry.status), []).append(entry)
    return [(same[0], _devices([entry.device for entry in same])) for same in lines.values()]


def _devices(devices: list[str]) -> str:
    return devices[0] if len(devices) == 1 else f"{devices[0]} .. {devices[-1]}"


def status_name(entry: Entry) -> str:
    """The status as shown: an estimate that is known to the byte is called exact."""
    is_exact = entry.status == "estimated" and entry.amount is not None and entry.amount.is_exact
    return "exact" if is_exact else entry.status


def range_cells(amount: Range | None, say: Say) -> tuple[str, str, str]:
    """Three cells; an unknown amount is a word, never a zero."""
    if amount is None:
        return (say("unknown"),) * 3
    return (
        say.size(amount.floor, LEDGER_DECIMALS),
        say.size(amount.expected, LEDGER_DECIMALS),
        say.size(amount.ceiling, LEDGER_DECIMALS),
    )


def at_least(total: Total, text: str, say: Say) -> str:
    """A total's figure; "at least" when an entry is missing from it."""
    return text if total.is_complete else say("at least {size}", size=text)


def total_cells(total: Total, say: Say) -> tuple[str, str, str]:
    """Three cells of a total."""
    floor, expected, ceiling = range_cells(total.amount, say)
    return at_least(total, floor, say), at_least(total, expected, say), at_least(total, ceiling, say)


def peaks_table(sizing: Sizing, say: Say) -> Table:
    """What each phase needs on the GPU that needs most, what sets that, and what is missing from it."""
    device = sizing.worst_device()
    whole, marks = sizing.ledger.predicted_peak(device), peak_marks(sizing.ledger, device, say)
    rows = [
        (
            str(peak.phase),
            *total_cells(peak.total, say),
            *([marks.get(peak.phase, "")] if marks else []),
            entry_names(peak.total.missing, say),
        )
        for peak in sizing.ledger.peaks(device)
    ]
    last = [""] if marks else []
    rows.append((say("predicted peak"), *total_cells(whole, say), *last, entry_names(whole.missing, say)))
    columns = [say("phase"), say("floor"), say("expected"), say("ceiling"), *([say("what sets it")] if marks else [])]
    return Table(
        columns=(*columns, say("not in it: unknown")),
        rows=tuple(rows),
        numeric=(1, 2, 3),
        title=say("Peak per phase, {gpu}", gpu=device),
    )


def peak_marks(ledger: Ledger, device: str, say: Say) -> dict[Phase, str]:
    """Which phase sets the peak, which needs most, and which keep what an earlier one reserved.

    Nothing where no allocator keeps anything: there each phase's figure is its own.
    """
    peaks = {peak.phase: peak.total for peak in ledger.peaks(device)}
    if not any(total.cached_bytes for total in peaks.values()):
        return {}
    sets = max(peaks, key=lambda phase: peaks[phase].amount.expected)
    needs = max(peaks, key=lambda phase: peaks[phase].need_bytes)
    first: dict[int, Phase] = {}
    marks = {}
    for one in counters_of(ledger, device):
        since = first.setdefault(one.reserved.amount.expected, one.phase)
        parts = [say("sets the peak")] if one.phase == sets else []
        parts += [say("needs most")] if one.phase == needs else []
        kept = one.reserved.cached_bytes and since != one.phase
        parts += [say("kept from {phase}", phase=str(since))] if kept else []
        marks[one.phase] = ", ".join(parts)
    return marks


def entry_names(names: tuple[str, ...], say: Say) -> str:
    """Entries by their labels."""
    return ", ".join(say(label(ENTRY_LABELS, name)) for name in names)


def envelopes_table(sizing: Sizing, say: Say) -> Table:
    """Weights only, the two envelopes, each declared as what it is."""
    ledger, device = sizing.ledger, sizing.worst_device()
    weights = ledger.weights_only(device)
    rows = [(say("weights only"), *_share_cells(weights.amount, sizing, say), _weights_text(sizing, say))]
    reserve = sizing.card.reserve
    if reserve is not None:
        envelope = ledger.indicative_envelope(reserve.amount_bytes, device).amount
        rows.append(
            (
                say("indicative envelope"),
                *_share_cells(envelope, sizing, say),
                say(
                    "weights only + chosen reserve {reserve_bytes}; the entries computed so far already take "
                    "{taken_bytes} of it",
                    reserve_bytes=reserve.amount_bytes,
                    taken_bytes=sizing.reserve_taken_bytes(),
                ),
            )
        )
    total = ledger.conservative_envelope(device)
    rows.append(
        (
            say("conservative envelope"),
            at_least(total, say.size(total.amount.ceiling, LEDGER_DECIMALS), say),
            at_least(total, say.size(total.amount.ceiling, LEDGER_DECIMALS, "GB"), say),
            at_least(total, say.size(total.amount.ceiling, unit="B"), say),
            say("sum of independent maxima, not a peak"),
        )
    )
    return Table(
        columns=(say("envelope"), "GiB", "GB", "B", say("what it is")),
        rows=tuple(rows),
        numeric=(1, 2, 3),
        title=say("Envelopes, {gpu}", gpu=device),
    )


def _share_cells(amount: Range, sizing: Sizing, say: Say) -> tuple[str, str, str]:
    """A figure in three units; of several GPUs the fullest holds at least an even share."""
    is_share = len(sizing.ledger.gpus) > 1 and amount.floor == amount.expected
    gib, gb, exact = (
        say("at least {size}", size=text) if is_share else text
        for text in (
            say.size(amount.expected, LEDGER_DECIMALS),
            say.size(amount.expected, LEDGER_DECIMALS, "GB"),
            say.size(amount.expected, unit="B"),
        )
    )
    return gib, gb, exact


def _weights_text(sizing: Sizing, say: Say) -> str:
    gpus = len(sizing.ledger.gpus)
    if gpus == 1:
        return say("parameters x bits, nothing else")
    if sizing.answer is not None:
        return say(
            "parameters x bits, nothing else; the fullest of {gpus} GPUs, as the engine divides them", gpus=str(gpus)
        )
    return say("parameters x bits, nothing else; per GPU, an even share over {gpus} GPUs", gpus=str(gpus))


def fit_blocks(fit: GpuFit, sizing: Sizing, say: Say) -> list[Block]:
    """The GPU asked for: capacities with their basis, the fit word, the margin."""
    capacity = fit.capacity
    peak = sizing.worst_peak()
    largest, smallest = (
        say("unknown") if amount is None else say.size(amount)
        for amount in (capacity.largest_bytes, capacity.smallest_bytes)
    )
    rows = [
        (say("capacity compared for exclusion"), largest, say.message(capacity.largest_basis)),
        (say("capacity compared for a fit"), smallest, say.message(capacity.smallest_basis)),
        (
            say("used by others"),
            say.size(capacity.others_use_bytes),
            say("not stated in the card") if _others_use(sizing) is None else say("from the card"),
        ),
        (
            say("predicted peak"),
            at_least(peak, say.size(peak.amount.expected), say),
            entry_names(peak.missing, say) and say("not in it: {names}", names=entry_names(peak.missing, say)),
        ),
    ]
    if fit.margin_bytes is not None:
        margin = say.size(fit.margin_bytes)
        rows.append(
            (
                say("useful margin"),
                margin if peak.is_complete else say("at most {size}", size=margin),
                say("usable capacity minus the ceiling of the peak"),
            )
        )
    verdict = (
        say("excluded by arithmetic: the floor alone is above the largest capacity of this name")
        if fit.is_excluded
        else say("to confirm: a prediction alone never admits")
    )
    return [
        Heading(f"{fit.asked} x {fit.gpus}"),
        Table(columns=(say("figure"), say("per GPU"), say("basis")), rows=tuple(rows), numeric=(1,)),
        Paragraph(
            say(
                "Cards this name may mean: {names}. {word}; {verdict}.",
                names=", ".join(fit.candidates),
                word=say(fit_label(fit.word, peak)).capitalize(),
                verdict=verdict,
            )
        ),
    ]


def _others_use(sizing: Sizing) -> int | None:
    host = sizing.card.host
    return host.others_use_bytes if isinstance(host, Host) else None


def missing_blocks(sizing: Sizing, say: Say) -> list[Block]:
    """What is unknown: which inputs it needs and which proof is expected."""
    seen: dict[str, Entry] = {}
    for entry in sizing.ledger.entries:
        if entry.status == "unknown":
            seen.setdefault(entry.name, entry)
    if not seen:
        return []
    items = tuple(
        say(
            "{name}: needs {needs}; proof expected: {proof}",
            name=say(label(ENTRY_LABELS, entry.name)),
            needs=needs_text(entry, say),
            proof=say.message(entry.expected_proof) if entry.expected_proof else "",
        )
        for entry in seen.values()
    )
    return [Heading(say("Unknown, and not counted as zero")), Items(items)]


def needs_text(entry: Entry, say: Say) -> str:
    """What an unknown entry needs: card fields by their path, anything else in words."""
    return ", ".join(say(NEED_LABELS[need]) if need in NEED_LABELS else need for need in entry.needs)


def explain_document(
    card: str, entries: tuple[Entry, ...], say: Say, held: Mapping[Phase, tuple[HeldRow, ...]] | None = None
) -> Document:
    """One entry, as every GPU has it: formula with its numbers, values with their origin, source.

    Where its amount differs from phase to phase, one table each. `held`: the tensors of the entry, by phase.
    """
    blocks: list[Block] = [Heading(f"{card}: {say(label(ENTRY_LABELS, entries[0].name))}", 1)]
    seen: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        seen.setdefault((entry.phases, entry.device) if len(_phases(entries)) > 1 else (), []).append(entry)
    for same in seen.values():
        blocks += _explained(tuple(same), say)
        blocks += [held_table(rows, say) for phase in same[0].phases if (rows := (held or {}).get(phase))]
    return tuple(blocks)


def _phases(entries: tuple[Entry, ...]) -> set[tuple[Phase, ...]]:
    return {entry.phases for entry in entries}


def _explained(entries: tuple[Entry, ...], say: Say) -> list[Block]:
    entry = entries[0]
    floor, expected, ceiling = range_cells(entry.amount, say)
    facts = [
        (say("origin"), say(STATUS_LABELS[status_name(entry)])),
        (say("phases"), ", ".join(entry.phases)),
        (say("GPU"), _devices([one.device for one in entries])),
        (say("floor"), floor),
        (say("expected"), expected),
        (say("ceiling"), ceiling),
    ]
    if entry.formula is not None:
        facts.append((say("formula"), say.message(entry.formula)))
    if entry.source is not None:
        facts.append((say("source"), say.message(entry.source)))
    if entry.expected_proof is not None:
        facts += [
            (say("needs"), needs_text(entry, say)),
            (say("proof expected"), say.message(entry.expected_proof)),
            (say("what to do"), say.hint(entry.expected_proof)),
        ]
    blocks: list[Block] = [Table(columns=(say("what"), say("value")), rows=tuple(facts))]
    if entry.inputs:
        rows = tuple((say(label(INPUT_LABELS, i.name)), str(i.value), say.message(i.source)) for i in entry.inputs)
        blocks.append(Table(columns=(say("input"), say("value"), say("from")), rows=rows, numeric=(1,)))
    return blocks
