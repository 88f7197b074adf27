"""The answer of `size` as one JSON document (`capienza.size/1`). Sizes are integers with `_bytes` in the name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capienza.ledger.capacity import Capacity
from capienza.ledger.entry import Entry
from capienza.ledger.held import HeldRow
from capienza.ledger.ledger import Total
from capienza.ledger.phase import Phase
from capienza.predict.answer import GpuFit, Sizing
from capienza.report.held import held_data
from capienza.report.messages import message_data
from capienza.report.tool import TOOL
from capienza.units import Range

SIZE_SCHEMA = "capienza.size/1"


def size_data(sizing: Sizing) -> dict[str, Any]:
    """Everything that `size` found out."""
    ledger, card = sizing.ledger, sizing.card
    reserve = card.reserve
    return {
        "schema": SIZE_SCHEMA,
        "tool": TOOL,
        "card": {"name": card.name, "file": card.file, "sha256": card.sha256, "task": card.task},
        "workload": workload_data(sizing),
        "model": model_data(sizing),
        "gpus": list(ledger.gpus),
        "entries": [entry_data(entry) for entry in ledger.entries],
        "peaks": [
            {"gpu": device, "phase": peak.phase, **total_data(peak.total)}
            for device in ledger.gpus
            for peak in ledger.peaks(device)
        ],
        "predicted_peak": [{"gpu": device, **total_data(ledger.predicted_peak(device))} for device in ledger.gpus],
        "weights_only": total_data(ledger.weights_only()),
        "indicative_envelope": None
        if reserve is None
        else {
            **total_data(ledger.indicative_envelope(reserve.amount_bytes)),
            "reserve_bytes": reserve.amount_bytes,
            "reserve_reason": reserve.reason,
            "reserve_taken_bytes": sizing.reserve_taken_bytes(),
        },
        "conservative_envelope": total_data(ledger.conservative_envelope()),
        "server": _server_data(sizing),
        "engine": _engine_data(sizing),
        "training": _training_data(sizing),
        "fit": None if sizing.fit is None else fit_data(sizing.fit),
    }


def _server_data(sizing: Sizing) -> dict[str, Any] | None:
    if sizing.volumes is None:
        return None
    from capienza.report.server import server_data

    return server_data(sizing.volumes)


def _training_data(sizing: Sizing) -> dict[str, Any] | None:
    if sizing.training is None:
        return None
    from capienza.report.training import training_data

    return training_data(sizing.training, sizing.ledger)


def _engine_data(sizing: Sizing) -> dict[str, Any] | None:
    if sizing.answer is None:
        return None
    from capienza.report.engine import engine_data

    return engine_data(sizing.answer)


def workload_data(sizing: Sizing) -> dict[str, Any]:
    """The dimensions that the figures are for."""
    card = sizing.card
    required = card.tokens.required
    return {
        "tokens_required": None if required is None else required.total,
        "concurrency": card.concurrency,
        "microbatch": card.microbatch,
        "weight_format": card.weights.format,
        "engine": None if card.engine is None else {"name": card.engine.name, "version": card.engine.version},
    }


def model_data(sizing: Sizing) -> dict[str, Any]:
    """What is known of the model, and from which bytes."""
    model = sizing.model
    architecture, artifact = model.architecture, model.artifact
    return {
        "name": model.name,
        "revision": model.revision,
        "model_type": None if architecture is None else architecture.model_type,
        "num_parameters": sizing.num_parameters(),
        "num_hidden_layers": None if architecture is None else len(architecture.layers),
        "max_position_embeddings": None if architecture is None else architecture.max_position_embeddings,
        "dtype": model.dtype,
        "files": [] if artifact is None else [file.name for file in artifact.files],
        "bytes_read": 0 if artifact is None else artifact.bytes_read,
        "left_out": [] if artifact is None else list(artifact.left_out),
        "notes": [message_data(note) for note in sizing.notes()],
    }


def entry_data(entry: Entry) -> dict[str, Any]:
    """One line of the ledger."""
    return {
        "name": entry.name,
        "gpu": entry.device,
        "phases": list(entry.phases),
        "status": entry.status,
        "is_exact": entry.amount is not None and entry.amount.is_exact,
        "amount": None if entry.amount is None else range_data(entry.amount),
        "formula": None if entry.formula is None else str(entry.formula),
        "source": None if entry.source is None else str(entry.source),
        "inputs": [{"name": i.name, "value": i.value, "source": str(i.source)} for i in entry.inputs],
        "needs": list(entry.needs),
        "expected_proof": None if entry.expected_proof is None else message_data(entry.expected_proof),
    }


def entries_data(entries: tuple[Entry, ...], held: Mapping[Phase, tuple[HeldRow, ...]] | None = None) -> dict[str, Any]:
    """One entry as every GPU has it (`capienza.entry/1`); `held`: the tensors of an entry of a pass, by phase."""
    made = {"schema": "capienza.entry/1", "tool": TOOL, "entries": [entry_data(entry) for entry in entries]}
    return made | {"held": held_data(held)} if held else made


def range_data(amount: Range) -> dict[str, int]:
    """Three figures in bytes."""
    return {"floor_bytes": amount.floor, "expected_bytes": amount.expected, "ceiling_bytes": amount.ceiling}


def total_data(total: Total) -> dict[str, Any]:
    """A sum; with `missing` it is "at least"."""
    return {**range_data(total.amount), "at_least": not total.is_complete, "missing": list(total.missing)}


def capacity_data(capacity: Capacity) -> dict[str, Any]:
    """The capacities compared, each with its basis."""
    return {
        "largest_bytes": capacity.largest_bytes,
        "largest_basis": str(capacity.largest_basis),
        "smallest_bytes": capacity.smallest_bytes,
        "smallest_basis": str(capacity.smallest_basis),
        "cuda_total_bytes": capacity.cuda_total_bytes,
        "others_use_bytes": capacity.others_use_bytes,
    }


def fit_data(fit: GpuFit) -> dict[str, Any]:
    """The ledger beside one GPU class."""
    return {
        "asked": fit.asked,
        "candidates": list(fit.candidates),
        "gpus": fit.gpus,
        "capacity": capacity_data(fit.capacity),
        "word": fit.word,
        "margin_bytes": fit.margin_bytes,
        "is_excluded": fit.is_excluded,
    }
