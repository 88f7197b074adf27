"""From a card and its opened model to a ledger: weights and caches exactly, the rest by name as unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from capienza.card.model import Card, Placement
from capienza.card.options import plain_name
from capienza.errors import InputError, Parameter, Place, template
from capienza.ledger.entry import Entry, Input
from capienza.ledger.ledger import WEIGHTS, Ledger
from capienza.ledger.phase import INFERENCE_PHASES, TRAINING_PHASES, Phase
from capienza.predict.cache import cache_need
from capienza.predict.gpu import NO_GPU, GpuFacts
from capienza.predict.model import LACKING, Model, stored_format
from capienza.predict.number_formats import TORCH_DTYPES, Doubt
from capienza.predict.options import open_options, without_floor
from capienza.predict.resident import held_as, weights_on
from capienza.predict.unknowns import (
    CONVERSION_MISSING,
    INFERENCE_MISSING,
    KNOWN_ARCHITECTURE,
    MEASURED_PHASE,
    ONLY_A_COUNT,
    STATED_INPUT,
    TRAINING_MISSING,
    missing_entry,
    unknown_entry,
)
from capienza.predict.weights import (
    FROM_FIELD,
    FROM_LAYERS,
    WeightBytes,
    per_gpu,
    share,
    weights_entry,
)
from capienza.units import Range

if TYPE_CHECKING:
    from capienza.predict.llama_served import LlamaAnswer
    from capienza.predict.served import EngineAnswer
    from capienza.predict.training.answer import TrainingAnswer

    Answer = EngineAnswer | LlamaAnswer

CACHE = template("predict.formula-cache", "{sequences} x ({layers}) = {total} B")
WINDOWED = template(
    "predict.formula-windowed-cache",
    "{sequences} x ({layers}) = {total} B with windows kept; every layer in full: {full} B",
)
BAD_CACHE_FORMAT = template(
    "predict.cache-format",
    "the cache format {found} is not understood; accepted: {accepted}",
    "correct it, or leave it out for the model's own format",
)
CACHE_OPTION = "kv_cache_dtype"
AUTO = "auto"
MORE_LAYERS = "architecture.more-layers"
DOUBTED_BY: dict[Doubt, frozenset[str]] = {
    "weights": frozenset({MORE_LAYERS}),
    "cache": frozenset({LACKING, MORE_LAYERS, "architecture.shapes-differ"}),
}
"""Codes of notes of `architecture.compare`, which is not loaded while there is nothing to compare."""
KV_CACHE = "kv_cache"
OPEN_OPTIONS = "open_options"
LLAMACPP = "llama.cpp"
STATE = "state"
CACHE_PHASES = (Phase.PREFILL, Phase.DECODE)
CACHE_FORMATS = {
    "fp8": "fp8_e4m3",
    "fp8_e4m3": "fp8_e4m3",
    "fp8_e4m3fn": "fp8_e4m3",
    "fp8_e5m2": "fp8_e5m2",
    "int8": "int8",
    "bf16": "bf16",
    "fp16": "fp16",
    **TORCH_DTYPES,
}


def build_ledger(
    card: Card,
    model: Model,
    gpus: int = 1,
    devices: tuple[str, ...] | None = None,
    answer: Answer | None = None,
    gpu: GpuFacts = NO_GPU,
    training: TrainingAnswer | None = None,
) -> Ledger:
    """The ledger of one copy of the model on `gpus` GPUs, or of only those of them that `devices` names.

    `answer` is what the card's engine takes (`ask_engine`); without one its entries are unknown. `gpu` is what is known
    of each: an engine may hold the weights in a larger format on it. `training` is what a training holds
    (`ask_training`), where it was asked for before.

    Raises `InputError` when the card asks for a format that cannot be computed for this model.
    """
    devices = devices or tuple(f"gpu:{index}" for index in range(gpus))
    training = training or ask_training(card, model, gpus)
    if training is not None:
        training = training.on(gpu)
    phases = TRAINING_PHASES if card.task == "fine-tuning" else INFERENCE_PHASES
    missing = TRAINING_MISSING if card.task == "fine-tuning" else INFERENCE_MISSING
    held = held_as(card, model, gpu)
    weights = weights_on(model, card.weights.format, held)
    entries: list[Entry] = []
    for device in devices:
        if answer is not None:
            entries.extend(_answered(answer, card, model, device, weights))
            entries.extend(_conversion(card, model, device))
            continue
        whole = weights_entry(weights, device, gpus, phases)
        if training is not None and held is None:
            whole = training.weights(whole)
        is_shared = training is not None and training.is_computed_shared
        entries.append(_provable(whole, card, model, _doubt(WEIGHTS, card), is_shared=is_shared))
        if training is not None:
            entries.extend(training.entries(device))
            continue
        entries.extend(_conversion(card, model, device))
        if card.task == "inference":
            entries.extend(_provable(entry, card, model, "cache") for entry in cache_entries(card, model, device, gpus))
        entries.extend(missing_entry(entry, card, device) for entry in missing if _applies(entry.name, card))
    return Ledger(entries=tuple(entries), gpus=devices)


def _answered(answer: Answer, card: Card, model: Model, device: str, weights: WeightBytes) -> list[Entry]:
    """The engine's entries; llama.cpp's own reader of options says what they leave proved."""
    from capienza.predict.served import EngineAnswer, served_entries

    if isinstance(answer, EngineAnswer):
        held = [
            _provable(entry, card, model, _doubt(entry.name, card)) for entry in served_entries(answer, device, weights)
        ]
        return [*held, *_open_entries(card, device)]
    from capienza.predict.llama_served import llama_entries

    return llama_entries(answer, device)


def _open_entries(card: Card, device: str) -> list[Entry]:
    """Options that are not understood may also take more: what they take is unknown."""
    options = open_options(card)
    if not options:
        return []
    proof = MEASURED_PHASE(phases=tuple(INFERENCE_PHASES))
    return [unknown_entry(OPEN_OPTIONS, INFERENCE_PHASES, device, options, proof)]


def ask_engine(card: Card, model: Model, gpus: int, gpu: GpuFacts = NO_GPU) -> Answer | None:
    """What the card's engine takes and offers on `gpus` GPUs; None where its rules, or what they need, are not known.

    `gpu` is what is known of each: an engine may take other defaults on a larger card. Raises `InputError` for a
    placement, an option or a format that cannot be.
    """
    if card.engine is None or card.task != "inference":
        return None
    if card.engine.name == LLAMACPP:
        from capienza.predict.llama_served import llama_answer

        return llama_answer(card, model, gpus)
    from capienza.predict.served import engine_answer

    return engine_answer(card, model, gpus, gpu, cache_format(card, model))


def ask_training(card: Card, model: Model, gpus: int, *, is_replayed: bool = True) -> TrainingAnswer | None:
    """What the card's training holds on any GPU; None for another task, or where what it depends on is open.

    Without `is_replayed` what the allocator keeps beyond the tensors is left unknown: most of the time goes there.
    Raises `InputError` for choices that contradict each other or the model, with the card's line.
    """
    if card.task != "fine-tuning":
        return None
    from capienza.predict.training.answer import training_answer

    return training_answer(card, model, gpus, is_replayed=is_replayed)


def _doubt(name: str, card: Card) -> Doubt | None:
    """What about the files would leave an entry unproved."""
    if name == WEIGHTS:
        return "weights" if card.weights.format is None else None
    return "cache" if name == KV_CACHE else None


def _provable(entry: Entry, card: Card, model: Model, doubt: Doubt | None, *, is_shared: bool = False) -> Entry:
    """The entry with its floor, where the card leaves it proved and nothing about the files raises that doubt."""
    is_stated = entry.name == KV_CACHE and states_cache_format(card)
    is_doubted = doubt is not None and (
        (doubt in model.doubts and not is_stated) or any(note.code in DOUBTED_BY[doubt] for note in model.differences)
    )
    if entry.amount is None or not (open_options(card, is_shared=is_shared) or is_doubted):
        return entry
    return msgspec.structs.replace(entry, amount=without_floor(entry.amount))


def cache_entries(card: Card, model: Model, device: str, gpus: int) -> list[Entry]:
    """KV cache and state of one GPU, or an unknown entry that names what is missing."""
    needs = _missing_inputs(card, model)
    if model.architecture is None:
        proof = KNOWN_ARCHITECTURE(refusal=model.refusal) if model.refusal else ONLY_A_COUNT()
        return [unknown_entry(KV_CACHE, CACHE_PHASES, device, ("model layers", *needs), proof)]
    kv_format = cache_format(card, model)
    required, sequences = card.tokens.required, _sequences_per_copy(card)
    if needs or required is None or sequences is None or kv_format is None or model.dtype is None:
        return [unknown_entry(KV_CACHE, CACHE_PHASES, device, needs, STATED_INPUT(needs=needs))]
    need = cache_need(model.architecture, required.total, kv_format, model.dtype)
    inputs = (
        Input("tokens.required", required.total, FROM_FIELD(field="tokens.required")),
        Input("concurrency", sequences, FROM_FIELD(field="concurrency")),
        Input("cache format", kv_format, FROM_FIELD(field=_cache_format_field(card))),
    )
    source = FROM_LAYERS(model_type=model.architecture.model_type)
    entries = []
    if need.full_bytes:
        windowed, full = need.windowed_bytes * sequences, need.full_bytes * sequences
        latent = need.latent_bytes * sequences
        floor = _per_gpu_floor(windowed, latent, card, gpus)
        words: dict[str, Parameter] = {"sequences": sequences, "layers": need.formula, "total": windowed}
        formula = CACHE(**words) if full == windowed else WINDOWED(**words, full=full)
        entries.append(
            Entry(
                name=KV_CACHE,
                phases=CACHE_PHASES,
                device=device,
                amount=Range(floor, floor, full),
                status="estimated",
                inputs=inputs,
                formula=per_gpu(formula, windowed, gpus),
                source=source,
            )
        )
    if need.state_bytes:
        state = need.state_bytes * sequences
        entries.append(
            Entry(
                name=STATE,
                phases=CACHE_PHASES,
                device=device,
                amount=share(state, gpus),
                status="estimated",
                inputs=inputs[1:2],
                formula=per_gpu(CACHE(sequences=sequences, layers=need.state_formula, total=state), state, gpus),
                source=source,
            )
        )
    return entries


def _sequences_per_copy(card: Card) -> int | None:
    """Sequences that the busiest copy of the model serves: data-parallel copies share them."""
    if card.concurrency is None:
        return None
    copies = card.placement.data_parallel if isinstance(card.placement, Placement) else 1
    return -(-card.concurrency // copies)


def _per_gpu_floor(total: int, latent: int, card: Card, gpus: int) -> int:
    """An even share; what latent attention keeps is replicated on every tensor-parallel rank."""
    ranks = card.placement.tensor_parallel if isinstance(card.placement, Placement) else 1
    replicated = min(ranks, gpus) if latent else 1
    return -(-(total - latent) // gpus) + -(-latent * replicated // gpus)


def _missing_inputs(card: Card, model: Model) -> tuple[str, ...]:
    stated = {
        "tokens.required": card.tokens.required,
        "concurrency": card.concurrency,
        "engine.options.kv_cache_dtype": cache_format(card, model),
    }
    return tuple(name for name, value in stated.items() if value is None)


def cache_format(card: Card, model: Model) -> str | None:
    """The format of K and V: the engine's option, else that of the model's unquantised parts (None: not known).

    Raises `InputError` for an option that is not understood.
    """
    stated = _cache_option(card)
    option = AUTO if stated is None else str(stated)
    if option == AUTO:
        return model.dtype
    if option not in CACHE_FORMATS:
        place = Place(card.file, key=f"engine.options.{CACHE_OPTION}")
        raise InputError(BAD_CACHE_FORMAT(found=option[:40], accepted=(AUTO, *CACHE_FORMATS)), place)
    return CACHE_FORMATS[option]


def states_cache_format(card: Card) -> bool:
    """Does the card fix the format of K and V, whatever the model's own is?"""
    return _cache_option(card) not in (None, AUTO)


def _cache_option(card: Card) -> object:
    options = card.engine.options if card.engine else {}
    return next((value for name, value in options.items() if plain_name(name) == CACHE_OPTION), None)


def _cache_format_field(card: Card) -> str:
    return "dtype" if _cache_option(card) is None else f"engine.options.{CACHE_OPTION}"


def _conversion(card: Card, model: Model, device: str) -> list[Entry]:
    """Loading in another format than the stored one holds more than the result for a while."""
    if model.artifact is None or card.weights.format in (None, stored_format(model)):
        return []
    return [missing_entry(CONVERSION_MISSING, card, device)]


def _applies(name: str, card: Card) -> bool:
    """Full fine-tuning has no adapters; every other unknown entry stands until it is computed."""
    return not (name == "adapters" and card.training is not None and card.training.method == "full")
