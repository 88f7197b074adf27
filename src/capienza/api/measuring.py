"""`measure`: run a command, measure it, and seal what was seen as a record."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from capienza.canon import pretty
from capienza.card.load import load_card
from capienza.card.model import Card, Host
from capienza.errors import CapienzaError, InputError, Message, Place, UnreachableError, template
from capienza.evidence.folder import read_folder
from capienza.evidence.record import Scope
from capienza.evidence.store import UNREADABLE, write_file, write_record
from capienza.evidence.survey import find_record
from capienza.files import check_place, write_whole
from capienza.measure.measured import Compared, Measured
from capienza.measure.observed import Part, beside
from capienza.measure.record import sealed_record, used_gpus
from capienza.measure.run import Run, left_file, make_folder, remove_empty, run_command
from capienza.measure.stage import Name, Stage, stage_of

RUNS, EVIDENCE = "runs", "evidence"
SUMMARY = "run.json"

NOT_A_PLAN = template(
    "measure.not-a-plan",
    "record {record} is no plan but a {kind}",
    "capienza evidence add --kind plan writes one; capienza evidence list shows them",
)
NO_PREDICTION = template("measure.no-prediction", "nothing was predicted to compare with: {reason}")
NOT_OUT = template("measure.out-not-written", "{file} was not written: {reason}", "the run's folder has it as run.json")
NOT_KEPT = template("measure.record-not-kept", "the record was not kept: {reason}", "the run's folder has everything")


def measure(
    card: str | Path | Card,
    command: Sequence[str],
    stage: Name = "required",
    *,
    evidence: str | Path | None = EVIDENCE,
    runs: str | Path = RUNS,
    plan: str | None = None,
    out: str | Path | None = None,
    ended: Callable[[int], None] | None = None,
) -> Measured:
    """Run a command for a stage of a card, measure it, and write its record into the folder `evidence` (None: nowhere).

    `plan` is the id of a plan record, or its beginning: the run is one of those that it announced. `out` is a file for
    the JSON document of the whole, record included. `ended` is told the command's exit code before anything is made of
    the run. Raises `CapienzaError` for what keeps the command from starting; once it has started, what goes wrong is a
    finding.
    """
    read = card if isinstance(card, Card) else load_card(card)
    wanted = stage_of(read, stage)
    if isinstance(wanted, Message):
        raise InputError(wanted, Place(read.file, key=f"tokens.{stage}"))
    records = None if evidence is None else Path(evidence)
    plan_id = _plan(plan, records)
    if records is not None:
        _check_writable(records)
    if out is not None:
        check_place(Path(out))
    folder = make_folder(Path(runs), read.name, stage, datetime.datetime.now(datetime.UTC))
    try:
        run = run_command(
            command,
            folder,
            wanted_at_once=wanted.concurrency,
            is_training=read.task == "fine-tuning",
            others_use_bytes=(read.host.others_use_bytes or 0) if isinstance(read.host, Host) else 0,
            ended=ended,
        )
    except CapienzaError:
        remove_empty(folder)
        raise
    found = _told(read, wanted, run, records, plan_id)
    return found if out is None else _written(found, Path(out))


def _told(card: Card, stage: Stage, run: Run, evidence: Path | None, plan: str | None) -> Measured:
    """Everything that is made of a run: comparison, summary, record. Nothing here raises for a person's error."""
    findings: list[Message] = [*run.findings]
    try:
        need, parts, phases = _beside(card, run)
    except CapienzaError as error:
        findings.append(NO_PREDICTION(reason=error.message))
        need, parts, phases = _bare_scope(card), (), ()
    sealed = sealed_record(run, card, stage, need, plan)
    summary = Measured(
        card=card, stage=stage, run=run, coverage=sealed.coverage, plan=plan, record=None, record_path=None,
        parts=parts, phases=phases, findings=(*findings, *sealed.findings),
    )  # fmt: skip
    # The summary is one of the files that the record names by digest, so it is written first and knows no record.
    problem = _write_summary(summary)
    if problem is not None and problem not in summary.findings:
        summary = msgspec.structs.replace(summary, findings=(*summary.findings, problem))
    record, path = sealed_record(run, card, stage, need, plan).record, None
    if evidence is not None:
        try:
            path = write_record(record, evidence)
        except CapienzaError as error:
            failed = NOT_KEPT(reason=error.message)
            summary = msgspec.structs.replace(summary, findings=(*summary.findings, failed))
    return msgspec.structs.replace(summary, record=record if path else None, record_path=path)


def _write_summary(summary: Measured) -> Message | None:
    try:
        write_file(summary.run.folder / SUMMARY, _document(summary))
    except OSError as error:
        return left_file(SUMMARY, error, summary.run.folder)
    return None


def _written(found: Measured, out: Path) -> Measured:
    try:
        write_whole(out, lambda file: file.write(_document(found)))
    except CapienzaError as error:
        left = NOT_OUT(file=str(out), reason=error.message)
        return msgspec.structs.replace(found, findings=(*found.findings, left))
    return found


def _document(found: Measured) -> bytes:
    from capienza.report.measure_data import measure_data

    return (pretty(measure_data(found)) + "\n").encode()


def _beside(card: Card, run: Run) -> tuple[Scope, tuple[Part, ...], tuple[Compared, ...]]:
    """The scope that the card asks for, and the ledger beside what was read. Raises what sizing raises."""
    from capienza.api.deciding import sizing_for
    from capienza.api.models import model_of
    from capienza.catalog.offer import GpuClaim
    from capienza.decide.need import needs_of
    from capienza.ledger.phase import Phase

    gpus = used_gpus(run)
    keys = gpus[0].keys if gpus and len({gpu.keys for gpu in gpus}) == 1 else ()
    claim = GpuClaim(name_raw=gpus[0].name if gpus else "-", candidates=keys)
    sizing = sizing_for(card, model_of(card))(claim, max(1, len(gpus)))
    need = needs_of(card, sizing, claim, max(1, len(gpus)))[0]
    ledger = sizing.ledger
    if ledger is None:
        return need, (), ()
    rows = []
    for number, scope in enumerate([gpu.scope for gpu in gpus] or ["process:command"]):
        device = f"gpu:{number}" if f"gpu:{number}" in ledger.gpus else ledger.gpus[0]
        predicted = {peak.phase.value: peak.total for peak in ledger.peaks(device)}
        seen = {peak.phase: None for peak in run.peaks.peaks if peak.scope == scope and peak.phase in list(Phase)}
        for phase in [phase.value for phase in Phase if phase.value in predicted or phase.value in seen]:
            total = predicted.get(phase)
            rows.append(
                Compared(
                    phase=phase,
                    scope=scope,
                    device=device,
                    floor_bytes=total.amount.floor if total else None,
                    expected_bytes=total.amount.expected if total else None,
                    ceiling_bytes=total.amount.ceiling if total else None,
                    is_complete=total is not None and total.is_complete,
                    observed_bytes={
                        peak.counter: peak.value
                        for peak in run.peaks.peaks
                        if peak.phase == phase and peak.scope == scope and peak.counter != "others"
                    },
                )
            )
    return need, beside(ledger, ledger.gpus[0], run.observed), tuple(rows)


def _bare_scope(card: Card) -> Scope:
    """What the card alone says of itself, where its model could not be opened."""
    return Scope(
        model=card.model.id,
        revision=card.model.revision,
        task=card.task,
        weight_format=card.weights.format,
        engine=card.engine.name if card.engine else None,
        concurrency=card.concurrency,
        microbatch=card.microbatch,
    )


def _plan(plan: str | None, evidence: Path | None) -> str | None:
    if plan is None:
        return None
    record = find_record(plan, read_folder(evidence) if evidence is not None else ())
    if record.kind != "plan":
        raise InputError(NOT_A_PLAN(record=record.id[:12], kind=record.kind))
    return record.id


def _check_writable(evidence: Path) -> None:
    """A folder that will not take the record is better known before a long run than after it."""
    try:
        evidence.mkdir(parents=True, exist_ok=True)
        probe = evidence / f".writable.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UnreachableError(UNREADABLE(problem=error.strerror or str(error)), Place(str(evidence))) from error
