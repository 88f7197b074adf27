"""Profiles of reinforcement learning as AgileRL stores them: one JSON document a model and card, many measured points.

Legend of the quantities, both what NVML counts of the device at most:
    rl.training    one update while the engine sleeps; rl.generation    completions while the trainer's base waits
A point is told by its knobs: length, microbatch, completions of an update, rank, share of the card for the engine.
What a training writes is a prompt of a quarter of the length, and completions that fill the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe
from capienza.errors import InputError, Message
from capienza.predict.training import rollout
from capienza.recipe.recipe import (
    Adapters,
    Checkpointing,
    Evaluation,
    Loss,
    Optimizer,
    Precision,
    Preference,
    Recipe,
)
from capienza.validate import training_reasons as reasons
from capienza.validate.row_check import shown
from capienza.validate.scored import Scored
from capienza.validate.training_model import dimensions, training_config
from capienza.validate.training_names import family_named, plain
from capienza.validate.training_words import count, names, number

Row = Mapping[str, Any]
PHASES = ("training", "generation")
PUBLISHED: dict[str, dict[str, Any]] = {
    "gemma-4-e2b": {
        "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144, "num_kv_shared_layers": 20,
        "use_double_wide_mlp": True, "global_head_dim": 512, "sliding_window": 512,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    },
    "gemma-4-e4b": {
        "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144, "num_kv_shared_layers": 18,
        "use_double_wide_mlp": False, "global_head_dim": 512, "sliding_window": 512,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 7,
    },
}  # fmt: skip
"""What the config.json of these models states beside the dimensions of a profile, which leave it out."""
TOLERANCE = 0.001
LARGEST_BYTES = 2.0**50
QUANTISED: dict[str, str | None] = {"none": None, "nf4": "nf4_double"}
"""AgileRL's presets that are computed: with nf4 PEFT takes what is not quantised up to fp32 (utils/llm_utils.py)."""
SHARE = 0.45
"""The engine's share of the card where a profile was written before it was a knob."""


def is_profile(document: object) -> bool:
    """Has the document the form of such a profile?"""
    return isinstance(document, dict) and isinstance(document.get("model_spec"), dict) and "measured" in document


def profile_rows(document: Row, file: str) -> Iterator[Scored]:
    """One entry for each measured point."""
    points = document["measured"]
    for place, point in enumerate(points if isinstance(points, list) else []):
        name = f"{file}#{place}"
        if not isinstance(point, dict):
            problem = reasons.NOT_A_READING(key=f"measured[{place}]", found=shown(point))
            yield _entry(document, name, "rl.none", None, problem)
            continue
        phase = point.get("phase")
        quantity = f"rl.{phase}" if phase in PHASES else "rl.none"
        yield _point(document, point, name, quantity)


def _point(document: Row, point: Row, name: str, quantity: str) -> Scored:
    measured = number(point.get("device_peak_bytes"), LARGEST_BYTES) or None
    if measured is None or quantity == "rl.none":
        return _entry(document, name, quantity, measured, reasons.NO_SUCH_FIGURE(kind=quantity))
    try:
        expected = _expected(document, point, quantity)
    except InputError as error:
        return _entry(document, name, quantity, measured, reasons.NOT_COVERED(why=error.message))
    entry = _entry(document, name, quantity, measured, None)
    return msgspec.structs.replace(entry, expected=expected, ceiling=expected, status="scored")


def _expected(document: Row, point: Row, quantity: str) -> float:
    knobs = point.get("knobs")
    knobs = knobs if isinstance(knobs, dict) else {}
    device = document.get("device")
    device = device if isinstance(device, dict) else {}
    gpu, total = str(device.get("name") or ""), count_of(device, "total_bytes", 2**50)
    length, group = count_of(knobs, "seq_len"), count_of(knobs, "group_size")
    group *= count_of(knobs, "n_prompts", least=1, default=1)
    architecture, more = _model(document)
    if quantity == "rl.generation":
        share = number(knobs.get("gpu_memory_utilization"))
        share = SHARE if share is None else min(share, 1.0)
        prompt = max(length // 4, 8)
        return rollout.awake_bytes(architecture, gpu, total, share, group, length, prompt)
    microbatch, rank = min(count_of(knobs, "micro_batch"), group), count_of(knobs, "lora_rank")
    quantised = str(knobs.get("quantization") or "none")
    if quantised not in QUANTISED:
        raise InputError(reasons.OTHER_WEIGHTS(found=quantised[:40]))
    targets = names(knobs.get("lora_target_modules") or "all-linear")
    if len(targets) == 1 and "," in targets[0]:
        targets = tuple(part.strip() for part in targets[0].split(","))
    reserved = _update_bytes(architecture, length, microbatch, group, rank, targets, QUANTISED[quantised])
    more += max(0, 2 * (architecture.num_parameters - rollout.plain_view(architecture).num_parameters))
    return reserved + more + rollout.asleep_bytes(architecture, gpu, group, length)


def count_of(knobs: Row, key: str, most: int = 2**26, least: int = 1, default: int | None = None) -> int:
    """A whole number of a profile. Raises `InputError` where it is missing or no run has it."""
    value = knobs.get(key)
    if value is None and default is not None:
        return default
    if most > 2**26 and isinstance(value, int) and 0 < value <= most:
        return value
    found = count(key, value, least)
    if found is None:
        raise InputError(reasons.NO_DIMENSIONS(names=(key,)))
    return found


def _model(document: Row) -> tuple[Architecture, int]:
    """The text model, and the bytes of the checkpoint that it does not hold (towers for images and sound)."""
    spec = document["model_spec"]
    name = str(document.get("model_id") or spec.get("model_id") or "")
    arch = spec.get("arch")
    arch = arch if isinstance(arch, dict) else {}
    realised = document.get("realised_weight_bytes")
    stored = realised.get("base") if isinstance(realised, dict) else None
    return _described(name, msgspec.json.encode(arch), stored if isinstance(stored, int) else 0)


@functools.lru_cache(maxsize=64)
def _described(name: str, encoded: bytes, stored_bytes: int) -> tuple[Architecture, int]:
    arch = msgspec.json.decode(encoded)
    sizes = dimensions(arch)
    if isinstance(arch.get("expert_intermediate_size"), int):
        sizes["moe_intermediate_size"] = sizes["intermediate_size"] = arch["expert_intermediate_size"]
    family = family_named(name)
    if family is None:
        raise InputError(reasons.UNKNOWN_NAME(model=name[:80]))
    config = training_config(family, name, {"tie": bool(arch.get("tied_embeddings"))}, sizes)
    more = next((extra for word, extra in PUBLISHED.items() if word in plain(name)), {})
    architecture = describe(config | more, "arch")
    held = 2 * architecture.num_stored_elements
    if not stored_bytes or abs(held - stored_bytes) <= TOLERANCE * stored_bytes:
        return architecture, 0
    if more and held < stored_bytes:
        return architecture, stored_bytes - held
    raise InputError(reasons.OTHER_COUNT(found=held // 2, family=family, stated=stored_bytes // 2))


def _update_bytes(
    architecture: Architecture,
    length: int,
    microbatch: int,
    group: int,
    rank: int,
    targets: tuple[str, ...],
    quantised: str | None,
) -> int:
    recipe = Recipe(
        framework="agilerl",
        framework_version="transformers 5.11.0, peft 0.19.1, torch 2.11.0",
        objective="grpo",
        method="qlora" if quantised else "lora",
        tokens=length,
        microbatch=microbatch,
        accumulation=1,
        is_packed=False,
        has_padding_mask=True,
        attention="sdpa",
        kernels="transformers",
        is_compiled=False,
        precision=Precision(
            base="bf16", trained="fp32", autocast="bf16", quantised=quantised, widens_rest=quantised is not None
        ),
        optimizer=Optimizer(family="adamw", run="foreach"),
        checkpointing=Checkpointing(kind="full"),
        loss=Loss(kind="chunked", chunk_tokens=rollout.chunk_rows(architecture.vocab_size)),
        evaluation=Evaluation(microbatch=0),
        adapters=Adapters(rank=rank, alpha=2 * rank, dropout=0.0, targets=targets, dtype="fp32"),
        max_grad_norm=0.1,
        preference=Preference(reference="adapter_off", rollout="vllm_colocate", sleeps=True, group=group),
    )
    key = architecture.model_type, architecture.num_parameters, length, microbatch, group, rank, targets, quantised
    return _cached(key, architecture, recipe)


_FOUND: dict[tuple[object, ...], int] = {}


def _cached(key: tuple[object, ...], architecture: Architecture, recipe: Recipe) -> int:
    """Points of a sweep differ in what changes nothing here: each update is run once."""
    if key not in _FOUND:
        _FOUND[key] = rollout.update(architecture, recipe).reserved_bytes
    return _FOUND[key]


def _entry(document: Row, name: str, quantity: str, measured: float | None, reason: Message | None) -> Scored:
    return Scored(
        id=name[:200],
        quantity=quantity,
        engine="agilerl",
        arch=family_named(str(document.get("model_id") or "")) or "?",
        weight_format="bf16",
        model=str(document.get("model_id") or "?")[:120],
        measured=measured,
        status="skipped",
        reason=str(reason or ""),
        kind=quantity,
        family="AgileRL",
    )
