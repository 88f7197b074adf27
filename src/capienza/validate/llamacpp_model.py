"""The model of a measured llama.cpp case: metadata, and the tensors that counts and size allow.

Legend: printed a number of the start-up lines, which stands in for a metadata key that a log cuts short or leaves out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal

import msgspec

from capienza.errors import InputError
from capienza.formats.tensor import Tensor
from capienza.predict.inference.llamacpp.model import LlamaModel, llama_model
from capienza.validate.llamacpp_shapes import Facts, Shapes, variants
from capienza.validate.llamacpp_types import Types, infer_types, stored_bytes

Layout = Literal["types", "shapes", "nothing"]
NAMES = {"f32": "fp32", "f16": "fp16"}

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


def model_of(said: Mapping[str, Any], keys: Mapping[str, Any]) -> tuple[LlamaModel, Layout]:
    """The model that a row describes. Raises `InputError` for one that cannot be described."""
    return _model(said["arch"], _frozen(keys), _frozen(_counts(said)), said.get("size_gib") or 0.0)


def stated_keys(model: Mapping[str, Any], *, is_latent: bool) -> dict[str, Any]:
    """Metadata of the row under the names of the file, without the architecture in front."""
    keys = dict(model.get("gguf") or {})
    for key, printed in PRINTED.items():
        value = model.get(printed)
        if value and (isinstance(keys.get(key), str) or key not in keys):
            keys[key] = value
    if is_latent:  # ik_llama.cpp makes the latent form itself when it loads an older file
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
