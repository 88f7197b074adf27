"""What a measured llama.cpp case says of its model and of how it was started; the measured figures are not read.

Legend: row one JSON object of `llamacpp*.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from capienza.errors import InputError, Message, template
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.rules import era_of
from capienza.predict.inference.llamacpp.runtime import ALL_LAYERS, FlashAttention, LlamaRuntime, SplitMode
from capienza.validate.llamacpp_model import NAMES, Layout, model_of, stated_keys

Row = Mapping[str, Any]

NO_ARCHITECTURE = template(
    "validate.llamacpp-no-architecture", "the row states no architecture or no number of layers"
)()
AMX_HOST = "own run, CPU"
"""The machine of these runs has AMX (reference/llamacpp-local.md)."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A model and a run. `layout`: shapes and formats of the file's tensors follow from the row, or shapes only.

    `has_widths`: the row states the widths of the cache.
    """

    model: LlamaModel
    runtime: LlamaRuntime
    layout: Layout
    has_widths: bool


def read_case(row: Row) -> Case | Message:
    """The case of a row, or why it cannot be had."""
    model = row["model"]
    if not model.get("arch") or not model.get("n_layer"):
        return NO_ARCHITECTURE
    keys = stated_keys(model, is_latent=bool(row["runtime"].get("mla_attn")))
    has_widths = "attention.head_count_kv" in keys
    keys.setdefault("embedding_length", 1)
    keys.setdefault("attention.head_count", keys.get("attention.head_count_kv", 1))
    try:
        found = model_of(model, keys)
    except InputError as error:
        return error.message
    table, layout = found
    return Case(model=table, runtime=runtime_of(row), layout=layout, has_widths=has_widths)


def runtime_of(row: Row) -> LlamaRuntime:
    """How the run was started; null is not stated."""
    row = {**row, "runtime": _stated(row["runtime"]), "config": _stated(row.get("config") or {})}
    said, config = row["runtime"], row["config"]
    count = config.get("n", _pretend_devices(row))
    devices = tuple(f"CUDA{index}" for index in range(count)) if count else _device_names(row)
    is_fork = prints_like_fork(row)

    return LlamaRuntime(
        devices=devices,
        n_ctx=said.get("n_ctx", 0),
        n_batch=said.get("n_batch") or 2048,
        n_ubatch=said.get("n_ubatch") or 512,
        n_seq_max=said.get("n_seq_max") or 1,
        kv_unified=str(said.get("kv_unified", True)).lower() == "true",
        cache_type_k=NAMES.get(said.get("type_k", "f16"), said.get("type_k", "f16")),
        cache_type_v=NAMES.get(said.get("type_v", "f16"), said.get("type_v", "f16")),
        flash_attn=_flash(said.get("flash_attn")),
        n_gpu_layers=_gpu_layers(row),
        split_mode=_split_mode(row),
        tensor_split=_shares(config.get("ts")),
        swa_full=bool(said.get("swa_full") or config.get("swa_full")),
        kv_offload=bool(config.get("kvo", 1)),
        op_offload=bool(config.get("op_offload", 1)),
        n_cpu_moe=config.get("cmoe") or said.get("n_cpu_moe") or 0,
        n_outputs=said.get("n_outputs_max") or None,
        snapshots=said.get("n_rs_seq") or 0,
        embeddings=bool(config.get("embd")),
        use_mmap=not _is_dry(row) and bool(config.get("mmap", 1)),
        repack="amx" if row.get("source") == AMX_HOST and config.get("repack", 1) else "none",
        f16_copies=bool(config.get("fa16")),
        is_dry_run=_is_dry(row),
        mla=said.get("mla_attn") or 0,
        era=era_of(None if is_own(row) else _build(row), is_fork=is_fork),
    )


def _stated(values: Row) -> Row:
    return {name: value for name, value in values.items() if value is not None}


def prints_like_fork(row: Row) -> bool:
    """True for ik_llama.cpp; its threads also quote llama.cpp itself, which alone prints the context by sequence."""
    return row["engine"] == "ik_llama.cpp" and "n_ctx_per_seq" not in row["runtime"]


def _is_dry(row: Row) -> bool:
    return "no_alloc" in str(row.get("source"))


def is_own(row: Row) -> bool:
    """Rows of the vendored source on the project's own machine."""
    return isinstance(row.get("source"), str)


def _pretend_devices(row: Row) -> int:
    if _is_dry(row):
        return 1
    match = re.search(r"--dev fake:(\d+)", row.get("argv") or "")
    return int(match[1]) if match else 0


def _device_names(row: Row) -> tuple[str, ...]:
    """Devices by ggml's names; a log of a CPU run may still list a card."""
    listed = [device.get("name") or "" for device in row.get("devices") or ()]
    names = tuple(name for name in listed if re.fullmatch(r"[A-Z][A-Za-z]+\d*", name))
    return names if states_offload(row) else ()


def states_offload(row: Row) -> bool:
    """True when the row says how many layers went to its devices."""
    return bool(row["runtime"].get("offloaded_layers") or row["runtime"].get("n_gpu_layers"))


def _gpu_layers(row: Row) -> int:
    config, said = row.get("config") or {}, row["runtime"]
    if "ngl" in config:
        return int(config["ngl"])
    done, _, _ = str(said.get("offloaded_layers") or "").partition("/")
    return int(done) if done.isdigit() else said.get("n_gpu_layers", ALL_LAYERS)


def _split_mode(row: Row) -> SplitMode:
    mode = (row.get("config") or {}).get("sm") or row["runtime"].get("split_mode")
    return mode if mode in ("none", "row", "tensor") else "layer"


def _shares(text: str | None) -> tuple[float, ...] | None:
    return tuple(float(part) for part in str(text).split(",")) if text else None


def _flash(stated: Any) -> FlashAttention:
    text = str(stated).lower()
    if text in ("none", "auto"):
        return "auto"
    return "on" if text in ("1", "true", "on", "enabled", "auto->enabled") else "off"


def states_build(row: Row) -> bool:
    """True when the row says which release it was."""
    return _build(row) is not None


def _build(row: Row) -> int | None:
    match = re.search(r"\bb(\d+)", row.get("build") or "")
    return int(match[1]) if match else None
