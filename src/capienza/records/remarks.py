"""What must be known about a record that was just given: where it will not count, and why."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from capienza.errors import Message, template
from capienza.evidence.claims import ANY, OUTCOME, PEAK, find
from capienza.evidence.record import Record
from capienza.evidence.survey import survey
from capienza.records.gpu import gpu_keys
from capienza.records.quantities import unread

UNSTATED = template(
    "records.scope-left-open",
    "the scope does not state {fields}: wherever the card requires one of them, the record does not count",
    "Add what is known to the form and give it again.",
)
UNKNOWN_GPU = template(
    "records.gpu-unknown",
    "no GPU of the catalogue is named {found}: it counts for offers that use the very same words",
    "`capienza devices` lists the names that are known.",
)
UNREAD = template(
    "records.quantity-unread",
    "no verdict reads {found}: it is kept, and decides nothing",
    "The reference of the form of evidence lists the quantities that count, with their units.",
)
WAIVER_WITHOUT_MODEL = template(
    "records.waiver-without-model",
    "the waiver does not name the model: it counts for cards that name none either",
    "Add the model to its scope.",
)

RUN_FIELDS = (
    "model", "revision", "task", "weight_format", "kv_format", "engine", "engine_version", "gpu", "gpus", "tokens",
    "configuration",
)  # fmt: skip
"""What verdicts ask of a run, beside its concurrency or microbatch."""
SHOWN_UNREAD = 5
QUALITY_FIELDS = tuple(field for field in RUN_FIELDS if field not in ("gpu", "gpus", "tokens"))
"""What is asked of an evaluation: its outputs are the same on every GPU, and its inputs are those of the corpus."""
LOAD_FIELDS = ("concurrency", "microbatch")


def remarks(record: Record, folder: Iterable[Record], now: datetime.datetime) -> tuple[Message, ...]:
    """Why the record does not or not everywhere count beside those of its folder; `folder` may hold it already."""
    found: list[Message] = []
    open_fields = _open(record)
    if open_fields:
        found.append(UNSTATED(fields=open_fields))
    found += [UNREAD(found=name[:60]) for name in list(unread(record))[:SHOWN_UNREAD]]
    gpu = record.scope.gpu
    if gpu is not None and gpu != ANY and not gpu_keys(gpu):
        found.append(UNKNOWN_GPU(found=gpu[:60]))
    if record.kind == "waiver" and record.scope.model is None:
        found.append(WAIVER_WITHOUT_MODEL())
    rows = survey((*folder, record), now)
    reasons = next(row.reasons for row in rows if row.record.id == record.id)
    return (*found, *reasons)


def _open(record: Record) -> list[str]:
    is_run = record.kind == "quality_result" or any(find(record, quantity) for quantity in (OUTCOME, PEAK))
    if not is_run:
        return []
    stated = record.scope
    asked = QUALITY_FIELDS if record.kind == "quality_result" else RUN_FIELDS
    fields = [field for field in asked if getattr(stated, field) is None]
    if record.kind == "measurement" and all(getattr(stated, field) is None for field in LOAD_FIELDS):
        fields.append(" / ".join(LOAD_FIELDS))
    return fields
