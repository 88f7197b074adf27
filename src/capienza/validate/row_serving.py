"""What a measured case ran, in the form that the engines' predictors take: only what its user knew beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from capienza.architecture.model import Architecture
from capienza.formats.layout import Rule, Scheme
from capienza.formats.scheme import WEIGHT_FORMATS
from capienza.predict.inference.serving import Adapters, Serving
from capienza.predict.placement import Split
from capienza.units import GIB, MIB

Row = Mapping[str, Any]

DTYPES = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "bf16": "bf16", "fp16": "fp16", "half": "fp16",
    "fp32": "fp32", "float": "fp32",
}  # fmt: skip
CACHE_FORMATS = {"auto": "auto", "fp8": "fp8_e4m3", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2", "int8": "int8"}
LARGEST_LOGGED = 1e18
UNITS = {"GiB": GIB, "MiB": MIB, "GB": 10**9, "MB": 10**6, "B": 1}
STATED = ("gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "enforce_eager",
          "block_size")  # fmt: skip
MADE_WHILE_LOADING = {"online": 8.0, "bitsandbytes": 4.127}
"""Bits of a parameter in formats that vLLM makes while loading: it takes the vision side with the rest."""
DEFAULT_ADAPTER_RANK = 16
PROMPT_TOKENS = 1
DRAFT_WORDS = ("eagle", "mtp")
_GROUP = re.compile(r"g(\d+)", re.ASCII)
_BITS = re.compile(r"(?:int|w)(\d)\b|(\d)[- ]?bit", re.ASCII)


def row_serving(row: Row, architecture: Architecture) -> Serving:
    """The settings of a case. Raises `ValueError` for a weight format whose bytes the row does not determine."""
    options = {name: row[name] for name in STATED if row.get(name) is not None}
    options |= {name.replace("-", "_"): value for name, value in (row.get("flags") or {}).items()}
    options["kv_cache_dtype"] = cache_format(str(row.get("kv_cache_dtype") or "auto"))
    options |= _generation(row)
    version = str(row.get("engine_version") or "")
    if "(V0" in version or "(V1" in version:
        options["use_v1"] = "(V1" in version
    if any(word in str(row.get("flags") or "").lower() for word in DRAFT_WORDS):
        options.setdefault("draft_layers", 1)
    return Serving(
        architecture=architecture,
        dtype=DTYPES[row.get("dtype") or "bfloat16"],
        scheme=row_scheme(str(row.get("weight_format") or ""), architecture),
        split=row_split(row),
        version=version or None,
        options=options,
        total_bytes=measured_bytes(row, "total_gpu_memory"),
        gpu=str(row.get("gpu") or ""),
        required_tokens=_required_tokens(row),
        concurrency=(row.get("flags") or {}).get("batch"),
        adapters=_adapters(row.get("lora")),
        unlisted_bytes=_unlisted_bytes(row),
    )


def _required_tokens(row: Row) -> int | None:
    """The length of one sequence: as configured, or as generated."""
    flags = row.get("flags") or {}
    generated = flags.get("generated_tokens") or flags.get("max_new_tokens")
    if row.get("max_model_len") is not None or generated is None:
        return row.get("max_model_len")
    return int(flags.get("prompt_tokens") or PROMPT_TOKENS) + int(generated)


def _generation(row: Row) -> dict[str, object]:
    """How tokens were generated without a server: a case that states only what it generated began with one token."""
    flags = row.get("flags") or {}
    options: dict[str, object] = {}
    if "generated_tokens" in flags or "max_new_tokens" in flags:
        options["prompt_tokens"] = int(flags.get("prompt_tokens") or PROMPT_TOKENS)
    if row.get("attention"):
        options["attn_implementation"] = str(row["attention"])
    return options


def row_split(row: Row) -> Split:
    """The parallel layout; a row that states none ran on one card."""
    return Split(tensor_parallel=row.get("tp") or 1, pipeline_parallel=row.get("pp") or 1)


def cache_format(text: str) -> str:
    """The format of K and V by its name in a log. Raises `ValueError` for another."""
    first = text.split()[0]
    if first == "fp8_ds_mla":
        return first
    if first not in CACHE_FORMATS:
        message = f"the cache format {text!r} is not understood"
        raise ValueError(message)
    return CACHE_FORMATS[first]


def row_scheme(text: str, architecture: Architecture) -> Scheme | None:
    """The weight format by its name in a table. Raises `ValueError` when the name does not determine the bytes."""
    lower = text.lower()
    if lower.startswith(("bf16", "fp16", "fp32")):
        return None
    if not lower:
        message = "weight_format is not stated"
        raise ValueError(message)
    name = _format_name(lower)
    if name is None or "dynamic" in lower:
        message = f"the bytes of {text!r} cannot be had from the row"
        raise ValueError(message)
    scheme = WEIGHT_FORMATS[name]
    return _experts_only(scheme, architecture) if "experts" in lower or "attention kept" in lower else scheme


def _format_name(lower: str) -> str | None:
    group = _GROUP.search(lower)
    bits = _BITS.search(lower)
    width = next((found for found in bits.groups() if found), "4") if bits else "4"
    if "gguf" in lower:
        return None
    if "nf4" in lower:
        return "nf4_double"
    if "bitsandbytes" in lower and width == "4":
        return "fp4"  # what bitsandbytes makes of load_in_4bit alone
    if "bitsandbytes" in lower or "llm.int8" in lower:
        return "int8"
    if "awq" in lower:
        return f"awq-int4-g{group[1] if group else 128}"
    if "gptq" in lower:
        return f"gptq-int{width}-g{group[1] if group else 128}"
    if "mxfp4" in lower:
        return "mxfp4"
    if "nvfp4" in lower or "fp4" in lower:
        return "nvfp4"
    if "fp8" in lower:
        return "fp8_block" if "block" in lower else "fp8"
    if "w8a8" in lower:
        return "w8a8"
    if ("int4" in lower or "w4a16" in lower) and group:
        return f"w4a16-g{group[1]}"  # compressed-tensors has no usual group
    return None


def _experts_only(scheme: Scheme, architecture: Architecture) -> Scheme:
    """The same format on experts (or, without any, on the MLP) alone."""
    if scheme.method == "mxfp4":
        return scheme
    has_experts = any(layer.mlp is not None and layer.mlp.kind == "experts" for layer in architecture.layers)
    return Scheme(
        method=scheme.method,
        name=scheme.name,
        layout=scheme.layout,
        roles=("expert",) if has_experts else ("mlp",),
        rules=tuple(rule for rule in scheme.rules if isinstance(rule, Rule)),
    )


def _adapters(lora: object) -> Adapters | None:
    if not isinstance(lora, Mapping):
        return None
    return Adapters(slots=int(lora.get("max_loras") or 1), rank=int(lora.get("rank") or DEFAULT_ADAPTER_RANK))


def _unlisted_bytes(row: Row) -> int:
    """The vision or audio side on one rank, in 16 bit, or in the format that vLLM makes of it while loading."""
    millions = row["arch"].get("extra_params_m")
    if millions is None:
        return 0
    lower = str(row.get("weight_format")).lower()
    bits = next((width for word, width in MADE_WHILE_LOADING.items() if word in lower), 16.0)
    return int(float(millions) * 1e6 * bits / 8) // (row.get("tp") or 1)


def measured_bytes(row: Row, name: str) -> int | None:
    """A logged size in bytes; None where the row has none, or none that can be read."""
    number, figure = measured_number(row, name), row["measured"].get(name)
    if number is None or not isinstance(figure, Mapping):
        return None
    unit = unit_bytes(figure)
    return None if unit is None else int(number * unit)


def unit_bytes(figure: Mapping[str, Any]) -> int | None:
    """The bytes of a figure's unit, which a remark may follow; None for one that is not known."""
    unit, _, _ = str(figure.get("true_unit") or figure.get("unit_logged")).partition(" ")
    return UNITS.get(unit)


def measured_number(row: Row, name: str) -> float | None:
    """A logged count or factor; None where the row has none, or none that can be read."""
    figure = row["measured"].get(name)
    value = figure.get("value") if isinstance(figure, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST_LOGGED:
        return None
    return float(value)
