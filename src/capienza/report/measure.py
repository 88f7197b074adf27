"""A measured run for people: how it ended, what was executed, the peaks, and the ledger beside what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capienza.i18n.translator import Say, mark
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.labels import ENTRY_LABELS, label
from capienza.report.messages import sentence

if TYPE_CHECKING:
    from capienza.measure.measured import Compared, Measured
    from capienza.measure.run import Run

OUTCOMES = {
    "completed": mark("completed"),
    "out_of_memory": mark("out of memory"),
    "failed": mark("failed, for another reason or an unknown one"),
}
COUNTERS = {
    "device": mark("device: all that is in use on the GPU"),
    "process": mark("process: what the command holds of it"),
    "others": mark("others: what other processes hold of it"),
    "rss": mark("RSS: main memory of the command's processes"),
    "allocated": mark("allocated by PyTorch"),
    "reserved": mark("reserved by PyTorch"),
    "cpu_allocated": mark("allocated by PyTorch in main memory"),
    "resident": mark("resident: all of one process in main memory"),
    "resident_at_end": mark("resident as the phase ends, not its peak"),
}
WHOLE_RUN, UNKNOWN_PHASE = "run", "unknown"


def measure_document(found: Measured, say: Say) -> Document:
    """The run in the reader's language."""
    run = found.run
    blocks: list[Block] = [
        Heading(say("Measured: {name}, stage {stage}", name=found.card.name, stage=found.stage.name), 1),
        Paragraph(_ending(found, say)),
        *_executed(found, say),
        *_peaks(run, say),
        *_phases(found, say),
        *_ledger(found, say),
    ]
    if found.findings:
        blocks += [Heading(say("Findings")), Items(tuple(sentence(finding, say) for finding in found.findings))]
    is_there = run.folder.is_dir()
    kept = say("Readings, output and environment are in {folder}.", folder=str(run.folder)) if is_there else ""
    if found.record is not None:
        kept = f"{kept} {say('Recorded as {path}.', path=str(found.record_path))}".strip()
    blocks += [Paragraph(kept)] if kept else []
    return tuple(blocks)


def _ending(found: Measured, say: Say) -> str:
    run = found.run
    seconds = say.number(round((run.ended - run.started).total_seconds()), 0)
    text = say(
        "exit code {code} after {seconds} s: {outcome}",
        code=str(run.exit_code),
        seconds=seconds,
        outcome=say(OUTCOMES[run.outcome]),
    )
    if run.failed_phase == UNKNOWN_PHASE:
        text += ", " + say("phase unknown: the output does not tell it")
    elif run.failed_phase_from == "process":
        text += ", " + say("phase {phase}: a process began it and did not end it", phase=run.failed_phase or "")
    elif run.failed_phase:
        text += ", " + say("phase {phase}", phase=run.failed_phase)
    return text


def _executed(found: Measured, say: Say) -> list[Block]:
    executed, stage = found.run.executed, found.stage
    unknown = say("unknown")

    def shown(value: int | None) -> str:
        return unknown if value is None else say.number(value)

    rows = [
        (say("tokens of a sequence"), shown(stage.tokens.total), shown(executed.tokens)),
        (say("prompt"), shown(stage.tokens.prompt) if stage.tokens.prompt else "", shown(executed.prompt)),
        (say("output"), shown(stage.tokens.output) if stage.tokens.output else "", shown(executed.output)),
    ]
    if stage.concurrency is not None:
        rows.append((say("at once"), shown(stage.concurrency), shown(executed.concurrency)))
    if stage.microbatch is not None:
        rows.append((say("microbatch"), shown(stage.microbatch), shown(executed.microbatch)))
    rows += [
        (say("samples"), "", shown(executed.samples)),
        (say("truncated"), say.number(0), shown(executed.truncated)),
        (say("dropped"), say.number(0), shown(executed.dropped)),
    ]
    covered: dict[bool | None, str] = {
        True: say("The stage covers its load."),
        False: say("The stage does not cover its load."),
    }
    told = covered.get(found.coverage.is_covered, say("Whether the stage covers its load is not known."))
    columns = (say("dimension"), say("asked for"), say("executed"))
    return [
        Heading(say("What was executed")),
        Table(columns=columns, rows=tuple(rows), numeric=(1, 2)),
        Paragraph(told),
    ]


def _peaks(run: Run, say: Say) -> list[Block]:
    rows = tuple(
        (
            say("whole run") if peak.phase == WHOLE_RUN else peak.phase,
            peak.scope,
            say(COUNTERS[peak.counter]) if peak.counter in COUNTERS else peak.counter,
            say.size(peak.value, decimals=3) if peak.unit == "B" else f"{say.number(peak.value)} {peak.unit}",
            say.number(peak.readings),
        )
        for peak in run.peaks.peaks
    )
    if not rows:
        return [Paragraph(say("No counter was read."))]
    columns = (say("phase"), say("where"), say("counter"), say("peak"), say("readings"))
    others = [
        say(
            "{name}, process {pid} on {scope}: {size}",
            name=other.name or say("unknown"),
            pid=str(other.pid),
            scope=other.scope,
            size=say("unknown") if other.peak_bytes is None else say.size(other.peak_bytes, decimals=3),
        )
        for other in run.others
    ]
    found: list[Block] = [Heading(say("Observed peaks")), Table(columns=columns, rows=rows, numeric=(3, 4))]
    return [*found, Heading(say("Other processes"), 3), Items(tuple(others))] if others else found


def _phases(found: Measured, say: Say) -> list[Block]:
    rows = []
    for row in found.phases:
        read: list[tuple[str, int | None]] = [*row.observed_bytes.items()]
        for counter, observed in read or [("", None)]:
            # Beside a prediction that lacks entries there is no difference to speak of.
            is_whole = observed is not None and row.expected_bytes is not None and row.is_complete
            difference = (observed or 0) - (row.expected_bytes or 0) if is_whole else None
            rows.append(
                (
                    row.phase,
                    row.scope,
                    *(_predicted(size, row.is_complete, say) for size in _range(row)),
                    counter,
                    _size(observed, say),
                    _difference(difference, say),
                )
            )
    if not rows:
        return []
    columns = (
        say("phase"), say("where"), say("floor"), say("expected"), say("ceiling"), say("counter"), say("observed"),
        say("difference"),
    )  # fmt: skip
    return [
        Heading(say("Predicted beside observed, by phase")),
        Table(columns=columns, rows=tuple(rows), numeric=(2, 3, 4, 6, 7)),
    ]


def _ledger(found: Measured, say: Say) -> list[Block]:
    rows = tuple(
        (
            " + ".join(say(label(ENTRY_LABELS, name)) for name in part.entries),
            _size(part.floor_bytes, say),
            _size(part.predicted_bytes, say),
            _size(part.ceiling_bytes, say),
            _size(part.observed_bytes, say),
            _difference(part.difference_bytes, say),
        )
        for part in found.parts
    )
    if not rows:
        return []
    columns = (say("entry"), say("floor"), say("expected"), say("ceiling"), say("observed"), say("difference"))
    return [
        Heading(say("Ledger beside what the engine printed, per GPU")),
        Table(columns=columns, rows=rows, numeric=(1, 2, 3, 4, 5)),
    ]


def _range(row: Compared) -> tuple[int | None, int | None, int | None]:
    return row.floor_bytes, row.expected_bytes, row.ceiling_bytes


def _predicted(amount: int | None, is_complete: bool, say: Say) -> str:
    """A predicted figure; "at least" when an entry of the phase is not in it."""
    shown = _size(amount, say)
    return shown if is_complete or amount is None else say("at least {size}", size=shown)


def _size(amount: int | None, say: Say) -> str:
    return say("unknown") if amount is None else say.size(amount, decimals=3)


def _difference(amount: int | None, say: Say) -> str:
    if amount is None:
        return ""
    return ("+" if amount > 0 else "-" if amount < 0 else "") + say.size(abs(amount), decimals=3)
