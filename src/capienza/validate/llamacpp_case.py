"""What a measured llama.cpp case says of its model and of how it was started; the measured figures are not read.

Legend: row one JSON object of `llamacpp*.jsonl`; printed a number of the start-up lines, which stands in for a metadata
key that the log cuts short or leaves out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal

import msgspec

from capienza.errors import InputError
from capienza.formats.tensor import Tensor
from capienza.predict.inference.llamacpp.model import LlamaModel, llama_model
from capienza.predict.inference.llamacpp.rules import era_of
from capienza.predict.inference.llamacpp.runtime import ALL_LAYERS, FlashAttention, LlamaRuntime, SplitMode
from capienza.validate.llamacpp_shapes import Facts, Shapes, variants
from capienza.validate.llamacpp_types import Types, infer_types, stored_bytes

Row = Mapping[str, Any]
Layout = Literal["types", "shapes", "nothing"]

PRINTED = {
    "block_count": "n_layer",
    "embedding_length": "n_embd",
    "feed_forward_length": "n_ff",
    "context_length": "n_ctx_train",
    "vocab_size": "n_vocab",
    "attention.head_count": "n_head",
    "attention.head_count_kv": "n_head_kv",
    "attention.key_length": "n_embd_head_k",
    "attention.value_length": "n_embd_head_v",
    "attention.sliding_window": "n_swa",
    "attention.kv_lora_rank": "n_lora_kv",
    "attention.q_lora_rank": "n_lora_q",
    "rope.dimension_count": "n_rot",
    "expert_count": "n_expert",
    "expert_used_count": "n_expert_used",
    "expert_feed_forward_length": "n_ff_exp",
    "leading_dense_block_count": "n_layer_dense_lead",
    "ssm.conv_kernel": "ssm_d_conv",
    "ssm.inner_size": "ssm_d_inner",
    "ssm.state_size": "ssm_d_state",
    "ssm.time_step_rank": "ssm_dt_rank",
    "ssm.group_count": "ssm_n_group",
    "full_attention_interval": "full_attention_interval",
}
NAMES = {"f32": "fp32", "f16": "fp16"}
EQUAL_CARDS = ("pretend", "against pretend devices")
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


def read_case(row: Row) -> Case | str:
    """The case of a row, or why it cannot be had."""
    model = row["model"]
    if not model.get("arch") or not model.get("n_layer"):
        return "the row states no architecture or no number of layers"
    keys = stated_keys(row)
    has_widths = "attention.head_count_kv" in keys
    keys.setdefault("embedding_length", 1)
    keys.setdefault("attention.head_count", keys.get("attention.head_count_kv", 1))
    try:
        found = _model(model["arch"], _frozen(keys), _frozen(_counts(model)), model.get("size_gib") or 0.0)
    except InputError as error:
        return str(error)
    table, layout = found
    return Case(model=table, runtime=runtime_of(row), layout=layout, has_widths=has_widths)


def stated_keys(row: Row) -> dict[str, Any]:
    """Metadata of the row under the names of the file, without the architecture in front."""
    model = row["model"]
    keys = dict(model.get("gguf") or {})
    for key, printed in PRINTED.items():
        value = model.get(printed)
        if value and (isinstance(keys.get(key), str) or key not in keys):
            keys[key] = value
    if row["runtime"].get("mla_attn"):  # ik_llama.cpp makes the latent form itself when it loads an older file
        width = model.get("n_lora_kv", 0) + model.get("n_rot", 0)
        latent = {"key_length_mla": 192, "value_length_mla": 128, "key_length": width, "head_count_kv": 1}
        keys |= {f"attention.{key}": value for key, value in latent.items()}
        keys["attention.value_length"] = model.get("n_lora_kv", 0)
    elif "attention.head_count_kv" not in keys and model.get("n_embd_k_gqa"):
        widths = {"head_count_kv": 1, "key_length": model["n_embd_k_gqa"], "value_length": model["n_embd_v_gqa"]}
        keys |= {f"attention.{key}": value for key, value in widths.items()}
    if model["arch"].startswith("qwen35") and "attention.key_length" in keys:
        keys.setdefault("attention.value_length", keys["attention.key_length"])
    return keys


def runtime_of(row: Row) -> LlamaRuntime:
    """How the run was started."""
    said, config = row["runtime"], row.get("config") or {}
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
        repack="amx" if row["source"] == AMX_HOST and config.get("repack", 1) else "none",
        f16_copies=bool(config.get("fa16")),
        is_dry_run=_is_dry(row),
        mla=said.get("mla_attn") or 0,
        era=era_of(None if is_own(row) else _build(row), is_fork=is_fork),
    )


def prints_like_fork(row: Row) -> bool:
    """True for ik_llama.cpp; its threads also quote llama.cpp itself, which alone prints the context by sequence."""
    return row["engine"] == "ik_llama.cpp" and "n_ctx_per_seq" not in row["runtime"]


def _is_dry(row: Row) -> bool:
    return "no_alloc" in str(row["source"])


def is_own(row: Row) -> bool:
    """Rows of the vendored source on the project's own machine."""
    return isinstance(row["source"], str)


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


def _build(row: Row) -> int | None:
    match = re.search(r"\bb(\d+)", row.get("build") or "")
    return int(match[1]) if match else None


def _counts(model: Mapping[str, Any]) -> dict[str, int]:
    """Tensors of each format, by this project's names."""
    return {NAMES.get(kind, kind.lower()): count for kind, count in (model.get("tensor_types") or {}).items()}


def _frozen(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)


@lru_cache(maxsize=256)
def _model(architecture: str, keys_text: str, counts_text: str, size_gib: float) -> tuple[LlamaModel, Layout]:
    """The model with the table that its counts and size allow, or else with a stand-in."""
    keys, counts = json.loads(keys_text), json.loads(counts_text)
    facts = _facts(architecture, keys)
    metadata = {"general.architecture": architecture} | {f"{architecture}.{key}": value for key, value in keys.items()}

    def build(tensors: list[Tensor]) -> LlamaModel:
        return msgspec.structs.replace(llama_model(metadata, tensors, "row"), table_is_read=False)

    table = _table(facts, counts, size_gib) if facts and counts else None
    if table is not None:
        with suppress(InputError):  # the metadata may be those of the latent form that the fork makes while it loads
            return build(_tensors(*table)), "types"
    shapes = next(variants(facts), None) if facts else None
    if shapes is not None:
        with suppress(InputError):
            return build(_tensors(shapes, {})), "shapes"
    return build(_smallest(keys)), "nothing"


def _table(facts: Facts, counts: Mapping[str, int], size_gib: float) -> tuple[Shapes, Types] | None:
    for shapes in variants(facts):
        types = infer_types(shapes, counts, size_gib)
        if types is not None:
            return shapes, types
    return None


def _tensors(shapes: Shapes, types: Types) -> list[Tensor]:
    """A table; without formats, matrices are as wide as fp16."""
    kinds = {name: types.get(name, "fp16" if len(shape) > 1 else "fp32") for name, shape in shapes.items()}
    return [Tensor(name, shape, kinds[name], stored_bytes(shape, kinds[name]) or 0) for name, shape in shapes.items()]


def _facts(architecture: str, keys: Mapping[str, Any]) -> Facts | None:
    """The numbers that the shapes need; None when one is missing."""
    needed = ("embedding_length", "vocab_size", "feed_forward_length", "attention.head_count")
    if any(not isinstance(keys.get(key), int) or keys[key] < 2 for key in needed):
        return None
    heads = keys.get("attention.head_count_kv")
    if heads is None or isinstance(heads, str):
        return None
    blocks, count, hidden = keys["block_count"], keys["attention.head_count"], keys["embedding_length"]
    return Facts(
        architecture=architecture,
        blocks=blocks,
        hidden=hidden,
        vocabulary=keys["vocab_size"],
        forward=keys["feed_forward_length"],
        heads=count,
        kv_heads=tuple(heads) if isinstance(heads, list) else (heads,) * blocks,
        key=keys.get("attention.key_length") or hidden // count,
        value=keys.get("attention.value_length") or hidden // count,
        keys=keys,
    )


def _smallest(keys: Mapping[str, Any]) -> list[Tensor]:
    """The fewest tensors that stand for a whole model."""
    width, blocks = keys["embedding_length"], keys["block_count"]
    norms = [Tensor(f"blk.{index}.attn_norm.weight", (width,), "fp32", 4 * width) for index in range(blocks)]
    rows = keys.get("vocab_size", 100)
    return [Tensor("token_embd.weight", (rows, width), "fp16", 2 * rows * width), *norms]
