"""What a workload needs beside the GPUs: disk, main memory, and what is downloaded from the server at its end.

Each is a list of entries with formula and source, one copy of the model, in all. Disk holds what is stored together:
the model's files, what is written while it is trained, the export, and what the card says of data. A need that nobody
can compute is an unknown entry: its total reads "at least".
Sources: sizes of the files and their headers; `predict.training.saved` for what training writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from capienza.card.model import Card, Host
from capienza.card.options import as_flag, plain_name
from capienza.errors import InputError, Message, Parameter, template
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Total, total_of
from capienza.ledger.phase import Phase
from capienza.predict.host_memory import ram_entries
from capienza.predict.model import Model, stored_format
from capienza.predict.options import open_options, without_floor
from capienza.predict.training.saved import is_adapted, needed_fields, option, saved, usual_export
from capienza.predict.unknowns import A_RULE, STATED_INPUT, is_stated, unknown_entry
from capienza.predict.weights import FROM_FIELD, FROM_HEADERS, weight_bytes
from capienza.units import Range

if TYPE_CHECKING:
    from capienza.predict.sizing import Answer

DISK, NETWORK = "disk", "network"
NONE, ADAPTER = "none", "adapter"
KEPT = "save_total_limit"
STREAMED = frozenset({"runai_streamer", "runai_streamer_sharded", "tensorizer", "remote", "s3"})
"""Values of load_format with which an engine reads weights from the network and stores none."""

FILES = template("predict.formula-files", "files of the model: {weights} of weights and {others} others, {total} B")
STREAMED_FILES = template(
    "predict.formula-streamed",
    "load_format {found} may read the files from the network: nothing is proved from below ({total} B)",
)
AS_STORED = template("predict.formula-as-stored", "the files are not here; as stored: {formula}")
CONVERTED = template(
    "predict.formula-converted",
    "0 B where the conversion to {format} is made while loading; written beforehand: {formula}",
)
CHECKPOINTS = template(
    "predict.formula-checkpoints",
    "{kept} x (weights {weights} B + optimizer states {states} B); {trained}; one more while a new one is written",
)
CHECKPOINT = template(
    "predict.formula-checkpoint",
    "one of (weights {weights} B + optimizer states {states} B); {trained}",
)
EXPORT = template("predict.formula-export", "whole weights in {format}: {formula}")
EXPORT_ADAPTER = template("predict.formula-export-adapter", "the adapters alone: {trained}")
WHOLE = ("merge", "full_state")
"""Whole weights in the format that they are stored in."""
FROM_RECIPE = template("predict.from-recipe", "the card's training recipe")
BY_HABIT = template("predict.from-habit", "not stated in the card: {source}")
READ_VOLUME = template(
    "predict.proof-volume",
    "the volume read on a finished run, or stated in the card as {field}",
    "read it with du on the server, or write {field}",
)


class Volumes(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of disk, main memory and download. Totals say what is missing from them."""

    storage: tuple[Entry, ...]
    ram: tuple[Entry, ...]
    egress: tuple[Entry, ...]

    @property
    def storage_total(self) -> Total:
        """Disk that one copy of the workload fills."""
        return total_of(self.storage)

    @property
    def ram_total(self) -> Total:
        """Main memory, as far as it can be proved."""
        return total_of(self.ram)

    @property
    def egress_total(self) -> Total:
        """What is downloaded once, at the end."""
        return total_of(self.egress)


def volumes_of(card: Card, model: Model, answer: Answer | None = None) -> Volumes:
    """What the card's workload needs of the server. `answer` is what its engine takes (`ask_engine`).

    Raises `InputError` for a resident format that cannot be computed for this model.
    """
    host = card.host if isinstance(card.host, Host) else Host()
    storage = [_files(card, model), *_converted(card, model), *_stated("data", host.data_bytes, "host.data", DISK)]
    export: list[Entry] = []
    if card.task == "fine-tuning":
        storage += _checkpoints(card, model)
        export = _export(card, model)
        storage += export
    downloads = [msgspec.structs.replace(entry, device=NETWORK) for entry in export]
    return Volumes(
        storage=tuple(storage),
        ram=tuple(ram_entries(card, model, answer)),
        egress=tuple(downloads) or (_unknown("outputs", (Phase.EXPORT,), NETWORK, ("host.egress",)),),
    )


def _files(card: Card, model: Model) -> Entry:
    """The files of the model as they are stored; their headers, tokenizer and the like only add to it."""
    sizes = {file.name: file for file in model.artifact.files} if model.artifact else {}
    weights = sum(file.size_bytes for file in sizes.values() if file.role == "weights")
    total = sum(file.size_bytes for file in sizes.values())
    if weights:
        amount = Range.exact(total)
        count = sum(file.role == "weights" for file in sizes.values())
        formula = FILES(weights=count, others=len(sizes) - count, total=total)
        source = FROM_HEADERS(reference=model.artifact.reference if model.artifact else model.name)
    else:
        try:
            stored = weight_bytes(model, None)
        except InputError:  # no file and no configuration says in which format they are stored
            return _unknown("model_files", (Phase.LOAD,), DISK, ("stored files",))
        total, source = stored.total_bytes, stored.source
        amount = Range(stored.total_bytes, stored.expected_bytes, stored.expected_bytes)
        formula = stored.formula if model.artifact is None else AS_STORED(formula=stored.formula)
        if "weights" in model.doubts:
            amount = without_floor(amount)
    streamed = _load_format(card)
    if streamed in STREAMED:
        amount, formula = without_floor(amount), STREAMED_FILES(found=streamed, total=total)
    return _entry("model_files", (Phase.LOAD,), amount, formula, source)


def _converted(card: Card, model: Model) -> list[Entry]:
    """Files in the resident format beside the stored ones: only where the conversion is not made while loading."""
    resident = card.weights.format
    if model.artifact is None or resident is None or resident == stored_format(model):
        return []
    found = weight_bytes(model, resident)
    formula = CONVERTED(format=resident, formula=found.formula)
    amount = Range(0, found.total_bytes, found.expected_bytes)
    return [_entry("converted_files", (Phase.LOAD,), amount, formula, found.source)]


def _checkpoints(card: Card, model: Model) -> list[Entry]:
    """Checkpoints kept at the same time, with the optimizer's states unless the card leaves them out."""
    if option(card, "checkpoint") == NONE:
        return []
    phases = (Phase.CHECKPOINT,)
    found = saved(card, model)
    if found is None:
        return [_unknown("checkpoint_files", phases, DISK, _open_fields(card))]
    only_model = as_flag(option(card, "save_only_model"))
    states = Range.exact(0) if only_model is True else found.states
    entries: list[Entry] = []
    kept = str(option(card, KEPT) or "")
    number = int(kept) if kept.isdecimal() and int(kept) > 0 else None
    # Only a card that says so proves that the states are saved as well.
    floor = found.weights.floor + (states.floor if only_model is False else 0)
    expected, ceiling = found.weights.expected + states.expected, found.weights.ceiling + states.ceiling
    count = number or 1
    amount = Range(count * floor, count * expected, (count + 1 if number else 1) * ceiling)
    words: dict[str, Parameter] = {
        "weights": found.weights.expected,
        "states": states.expected,
        "trained": found.formula,
    }
    formula = CHECKPOINT(**words) if number is None else CHECKPOINTS(kept=number, **words)
    entries.insert(0, _entry("checkpoint_files", phases, _as_proved(amount, card), formula, FROM_RECIPE()))
    if number is None:
        entries.append(_unknown("more_checkpoints", phases, DISK, (f"training.{KEPT}",)))
    return entries


def _export(card: Card, model: Model) -> list[Entry]:
    """What is handed on at the end: the adapters, or the whole weights in the format that the card states."""
    stated, phases = option(card, "export"), (Phase.EXPORT,)
    if stated == NONE:
        return []
    if stated is None:
        return _usual_export(card, model)
    if stated == ADAPTER:
        found = saved(card, model) if is_adapted(card) else None
        if found is None:
            return [_unknown("export_files", phases, DISK, _open_fields(card))]
        formula = EXPORT_ADAPTER(trained=found.formula)
        return [_entry("export_files", phases, _as_proved(found.weights, card), formula, FROM_RECIPE())]
    try:
        whole = weight_bytes(model, None if stated in WHOLE else str(stated))
    except InputError:  # the layers are not known, which the model's own notes say
        return [_unknown("export_files", phases, DISK, ("model layers",))]
    amount = Range(whole.total_bytes, whole.expected_bytes, whole.expected_bytes)
    formula = EXPORT(format=str(stated), formula=whole.formula)
    return [_entry("export_files", phases, _as_proved(amount, card), formula, whole.source)]


def _usual_export(card: Card, model: Model) -> list[Entry]:
    """What the recipe takes where the card states no export: by habit, so that nothing of it is proved."""
    phases = (Phase.EXPORT,)
    habit = usual_export(card, model)
    if habit is None or habit.value in (NONE, "merge"):
        return [_unknown("export_files", phases, DISK, ("training.export",))]
    training = card.training
    assert training is not None
    options = {**training.options, "export": str(habit.value)}
    asked = msgspec.structs.replace(card, training=msgspec.structs.replace(training, options=options))
    return [
        entry if entry.amount is None else msgspec.structs.replace(
            entry, amount=without_floor(entry.amount), source=BY_HABIT(source=habit.source)
        )
        for entry in _export(asked, model)
    ]  # fmt: skip


def _stated(name: str, amount_bytes: int | None, field: str, device: str) -> list[Entry]:
    if amount_bytes is None:
        return []
    return [
        Entry(
            name=name,
            phases=(Phase.DATA,),
            device=device,
            amount=Range.exact(amount_bytes),
            status="chosen",
            source=FROM_FIELD(field=field),
        )
    ]


def _open_fields(card: Card) -> tuple[str, ...]:
    """What the card leaves open of the recipe."""
    return _unstated(card, *needed_fields(card))


def _unstated(card: Card, *fields: str) -> tuple[str, ...]:
    """The fields that the card does not state; a rule where it states them all."""
    return tuple(field for field in fields if not is_stated(card, field)) or (A_RULE,)


def _as_proved(amount: Range, card: Card) -> Range:
    """Training options that are not understood may save less: then nothing is proved from below."""
    is_open = any(path.startswith("training.") for path in open_options(card) if path != "training.method")
    return without_floor(amount) if is_open else amount


def _load_format(card: Card) -> str | None:
    options = card.engine.options if card.engine else {}
    return next((str(value) for name, value in options.items() if plain_name(name) == "load_format"), None)


def _entry(name: str, phases: tuple[Phase, ...], amount: Range, formula: Message, source: Message) -> Entry:
    return Entry(
        name=name, phases=phases, device=DISK, amount=amount, status="estimated", formula=formula, source=source
    )


def _unknown(name: str, phases: tuple[Phase, ...], device: str, needs: tuple[str, ...]) -> Entry:
    is_field = all("." in need for need in needs)
    proof = STATED_INPUT(needs=needs) if is_field and needs != ("host.egress",) else READ_VOLUME(field=_field(device))
    return unknown_entry(name, phases, device, needs, proof)


def _field(device: str) -> str:
    return "host.egress" if device == NETWORK else "host.storage"
