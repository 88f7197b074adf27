"""The format of the weights, and that of keys and values.

A format is offered where it may take fewer bytes; whether it does, the prediction says. Another format of the weights
is another checkpoint, or a conversion while loading, and its quality is not that of the one before.
"""

from __future__ import annotations

from decimal import Decimal

from capienza.card.model import Card
from capienza.decide.alternatives.change import Change, Proposals, Value, change
from capienza.decide.alternatives.levers.llama_options import option_path, option_value
from capienza.decide.alternatives.levers.texts import ALREADY, NO_ENGINE, NOT_SERVED, OTHER_ENGINE
from capienza.decide.alternatives.scene import Scene
from capienza.errors import InputError, template
from capienza.predict.model import Model, stored_format
from capienza.predict.training.saved import is_adapted
from capienza.predict.weights import weight_bytes

IN_THE_FILE = template(
    "alternatives.format-of-the-file",
    "a GGUF file holds its formats: another one is another file",
    "point model.path at the other file, and size that card",
)
TRAINED_WHOLE = template(
    "alternatives.format-of-trained-weights",
    "all weights are trained, so they stay in 16 or 32 bits",
)
NO_SMALLER = template("alternatives.no-smaller-format", "no format known here takes fewer bytes than {found}")
FEWER_BITS = (Decimal(16), Decimal(8), Decimal(4))
HALVES = ("bf16", "fp16")
"""What weights that are all trained may be held in, beside 32 bits."""
FORMATS = (
    "bf16", "fp8", "fp8_block", "w8a8", "int8", "nvfp4", "awq-int4-g128", "gptq-int4-g128", "w4a16-g128",
    "nf4", "nf4_double",
)  # fmt: skip
FOR_EXPERTS = "mxfp4"
"""It holds fused experts alone; a model without them keeps its own format."""
FOR_ADAPTERS = ("bf16", "int8", "nf4", "nf4_double")
"""Formats that adapters are trained beside: those of bitsandbytes, and 16 bits."""
TOUCHED = ("weights", "loaded_extra", "loading", "load_conversion", "dequantized")
CACHE_TYPES: dict[str, tuple[dict[str, Value], ...]] = {
    "vllm": ({"kv_cache_dtype": "fp8"},),
    "sglang": ({"kv_cache_dtype": "fp8_e5m2"}, {"kv_cache_dtype": "fp8_e4m3"}),
    "tgi": ({"kv_cache_dtype": "fp8_e4m3fn"}, {"kv_cache_dtype": "fp8_e5m2"}),
    "tensorrt-llm": ({"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "int8"}),
    "transformers": ({"cache_implementation": "quantized"},),
    "llama.cpp": ({"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, {"cache_type_k": "q4_0", "cache_type_v": "q4_0"}),
}
"""Options that hold keys and values in fewer bits, by engine."""


def weight_formats(scene: Scene) -> Proposals:
    """Formats of fewer bits."""
    card, model = scene.card, scene.model
    if model.bits is not None:
        fewer = [bits for bits in FEWER_BITS if bits < model.bits]
        return Proposals(changes=tuple(_change(card, {"model.bits": bits}) for bits in fewer))
    if model.artifact is not None and model.artifact.kind == "gguf":
        return Proposals(notes=(IN_THE_FILE(),))
    formats = _all_formats(model) if card.task == "inference" else FOR_ADAPTERS if is_adapted(card) else ()
    current = card.weights.format or stored_format(model)
    if not formats and current not in ("fp32", None):
        return Proposals(notes=(TRAINED_WHOLE(),))
    held = weight_bytes(model, card.weights.format).expected_bytes
    wanted = [name for name in formats or HALVES if name != current and _is_smaller(model, name, held)]
    changes = tuple(_change(card, {"weights.format": name}) for name in wanted)
    return Proposals(changes=changes, notes=() if changes else (NO_SMALLER(found=current or "?"),))


def _is_smaller(model: Model, name: str, held_bytes: int) -> bool:
    """Fewer bytes than now; one that cannot be computed is left for the prediction to refuse."""
    try:
        return weight_bytes(model, name).expected_bytes < held_bytes
    except InputError:
        return True


def _all_formats(model: Model) -> tuple[str, ...]:
    parameters = model.architecture.parameters if model.architecture else ()
    has_experts = any(parameter.role == "expert" and len(parameter.shape) == 3 for parameter in parameters)
    return (*FORMATS, FOR_EXPERTS) if has_experts else FORMATS


def _change(card: Card, after: dict[str, Value]) -> Change:
    return change("weight_format", card, after, TOUCHED)


def cache_types(scene: Scene) -> Proposals:
    """Types of keys and values of fewer bits than the model's own."""
    card = scene.card
    if card.task != "inference":
        return Proposals(notes=(NOT_SERVED(),))
    if card.engine is None:
        return Proposals(notes=(NO_ENGINE(),))
    if card.engine.name not in CACHE_TYPES:
        return Proposals(notes=(OTHER_ENGINE(engine=card.engine.name),))
    types = [
        one for one in CACHE_TYPES[card.engine.name] if any(option_value(scene, name) != one[name] for name in one)
    ]
    if not types:
        found = ", ".join(f"{name}: {value}" for one in CACHE_TYPES[card.engine.name] for name, value in one.items())
        return Proposals(notes=(ALREADY(found=found),))
    changes = (
        change("kv_type", card, {option_path(scene, name): value for name, value in one.items()}, ("kv_cache",))
        for one in types
    )
    return Proposals(changes=tuple(changes))
