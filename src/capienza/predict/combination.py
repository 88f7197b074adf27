"""What a card asks an engine to run, as the rules of compatibility look at it: engine, release, and their subjects.

A format that the card states is required of the engine; one that only the files have is the engine's to change.
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.card.model import Card
from capienza.card.options import plain_name
from capienza.catalog.release import Release, parse_release
from capienza.catalog.selection import ANY_WEIGHTS, Combination
from capienza.formats.kinds import GGUF, kind_named, kinds_of
from capienza.predict.inference.release import release as named_release
from capienza.predict.model import Model

SIXTEEN_BITS = "bf16"
STATED_BF16 = ("bf16", "bfloat16")
ATTENTION_OPTIONS = ("attention_backend", "attn_implementation")
FLASH_OPTION, FLASH_VERSIONS = "flash_attn_version", ("3", "4")
CACHE_OPTION, QUANTIZATION_OPTION = "kv_cache_dtype", "quantization"
DTYPE_OPTIONS = ("dtype", "torch_dtype")
CACHES = {"fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e4m3fn": "fp8", "fp8_e5m2": "fp8", "nvfp4": "nvfp4", "bf16": "bf16",
          "bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}  # fmt: skip


def combination_of(card: Card, model: Model) -> Combination | None:
    """The combination of a card; None while it names no engine."""
    engine = card.engine
    if engine is None:
        return None
    options = {plain_name(name): str(value).strip() for name, value in engine.options.items()}
    return Combination(
        engine=engine_name(engine.name),
        version=engine.version,
        release=engine_release(engine.version, engine.name),
        subjects=frozenset(_subjects(card, model, options)),
    )


def engine_name(name: str) -> str:
    """The name that rules use."""
    plain = name.strip().casefold().replace("_", "-")
    return "llama.cpp" if plain in ("llamacpp", "llama-cpp") else plain


def engine_release(version: str | None, engine: str) -> Release | None:
    """The numbers of an engine's version, however the card writes it."""
    return named_release(version, engine) or parse_release(version)


def weight_kinds(card: Card, model: Model) -> tuple[str, ...]:
    """The kinds of weights that the engine is given: as the card states them, else as the files are."""
    if card.weights.format is not None:
        from capienza.formats.scheme import WEIGHT_FORMATS

        return kinds_of(WEIGHT_FORMATS.get(card.weights.format))
    if model.artifact is not None and model.artifact.kind == "gguf":
        return (GGUF,)
    if model.scheme is not None:
        return kinds_of(model.scheme)
    stated = _stated_method(model)
    kind = kind_named(stated) if stated else None
    return (kind or stated,) if stated else kinds_of(None)


def _stated_method(model: Model) -> str:
    """The quantisation of a configuration whose bytes are not computed; empty without one."""
    config = (model.artifact.config if model.artifact else None) or {}
    stated = config.get("quantization_config")
    method = stated.get("quant_method") if isinstance(stated, dict) else None
    return method.casefold()[:64] if isinstance(method, str) else ""


def _subjects(card: Card, model: Model, options: dict[str, str]) -> Iterator[str]:
    yield "start"
    yield ANY_WEIGHTS
    for kind in weight_kinds(card, model):
        yield f"weights:{kind}"
    asked = kind_named(options.get(QUANTIZATION_OPTION, ""))
    if asked:
        yield f"weights:{asked}"
    yield from _number_format(card, model, options)
    backend = next((options[name].casefold() for name in ATTENTION_OPTIONS if name in options), None)
    if backend is not None:
        yield f"attention:{backend}"
    if options.get(FLASH_OPTION) in FLASH_VERSIONS:
        yield f"attention:fa{options[FLASH_OPTION]}"
    cache = CACHES.get(options.get(CACHE_OPTION, "").casefold().removeprefix("torch."))
    if cache is not None:
        yield f"kv:{cache}" if backend is None or cache != "fp8" else f"kv:{cache}@{backend}"


def _number_format(card: Card, model: Model, options: dict[str, str]) -> Iterator[str]:
    told = next((options[name] for name in DTYPE_OPTIONS if options.get(name, "auto") != "auto"), None)
    if told is None and card.weights.format in STATED_BF16:
        told = card.weights.format
    if told is not None:
        if told.removeprefix("torch.").casefold() in STATED_BF16:
            yield f"dtype:{SIXTEEN_BITS}"
            yield f"dtype:{SIXTEEN_BITS}-stated"
    elif model.dtype == SIXTEEN_BITS:
        yield f"dtype:{SIXTEEN_BITS}"
        yield f"dtype:{SIXTEEN_BITS}-auto"
