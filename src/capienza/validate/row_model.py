"""The model of a measured case: its condensed `arch` read as the config.json that it was condensed from.

A row names the class (`Qwen3MoeForCausalLM`) and the sizes under one set of names for all families. The class gives
the family; each size is written under every name that a family may read it by, and a family reads its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from capienza.architecture.model import Architecture
from capienza.architecture.registry import describe, model_types
from capienza.errors import InputError

Row = Mapping[str, Any]

SPELLINGS = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "n_embed"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads"),
    "intermediate_size": ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len"),
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "num_shared_experts": ("n_shared_experts",),
}
OTHER_CLASSES = {
    **dict.fromkeys(
        (
            "AquilaForCausalLM",
            "BaiChuanForCausalLM",
            "BaichuanForCausalLM",
            "InternLM2ForCausalLM",
            "InternLMForCausalLM",
            "MiniCPMForCausalLM",
            "SolarForCausalLM",
            "XverseForCausalLM",
            "YiForCausalLM",
        ),
        "llama",
    ),
    "CommandRForCausalLM": "cohere",
    "HunYuanDenseV1ForCausalLM": "hunyuan_v1_dense",
    "HunYuanMoEV1ForCausalLM": "hunyuan_v1_moe",
    "MiMoForCausalLM": "qwen2",
    "PixtralForConditionalGeneration": "mistral",
    "ChatGLMModel": "glm",
    "DeepseekV3": "deepseek_v3",
    "LlavaForConditionalGeneration": "llama",
    "MllamaForConditionalGeneration": "mllama",
    "Phi3VForCausalLM": "phi3",
    "QWenLMHeadModel": "qwen",
    "Qwen2_5OmniThinker": "qwen2",
    "Qwen2_5_VLForConditionalGeneration": "qwen2",
    "Qwen2VLForConditionalGeneration": "qwen2",
    "Gemma3ForConditionalGeneration": "gemma3_text",
    "Qwen3_5ForConditionalGeneration": "qwen3_5_text",
    "Llama4ForConditionalGeneration": "llama4_text",
    "Mistral3ForConditionalGeneration": "mistral",
}
"""Classes whose language side has another family's layers: the same matrices, fused or not."""
LLAMA_FIED = ("llama-fied", "llamafied")
ENDINGS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model", "Thinker")
_PATTERN = re.compile(r"(\d+) sliding\s*:\s*(\d+) full", re.ASCII)


def row_architecture(row: Row) -> Architecture:
    """The architecture of a case. Raises `InputError` when its class or sizes are not understood."""
    config, file = row_config(row["arch"]), f"arch of {row['id']}"
    try:
        return describe(config, file)
    except InputError as error:
        text = {key: value for key, value in config.items() if key != "model_type"}
        try:
            return describe({"model_type": config["model_type"], "text_config": text}, file)
        except InputError:
            raise error from None


def row_config(arch: Row) -> dict[str, Any]:
    """The config.json that a condensed `arch` stands for."""
    config: dict[str, Any] = {key: value for key, value in arch.items() if not isinstance(value, str)}
    for name, spellings in SPELLINGS.items():
        if arch.get(name) is not None:
            config |= dict.fromkeys(spellings, arch[name])
    model_type = family_of(str(arch.get("architecture") or ""))
    config["model_type"] = model_type
    if model_type == "qwen" and isinstance(arch.get("intermediate_size"), int):
        config["intermediate_size"] = 2 * arch["intermediate_size"]  # its config.json writes gate and up together
    _experts(config, arch, model_type)
    _layer_types(config, arch)
    if arch.get("all_bias"):
        config["attention_bias"] = True
    if arch.get("rope") is False:
        config["alibi"] = True
    return config


def family_of(name: str) -> str:
    """The model type of a class name; the name itself when none resembles it, which the registry then refuses."""
    if any(word in name for word in LLAMA_FIED):
        return "llama"
    first = re.split(r"[\s/(-]", name.strip(), maxsplit=1)[0]
    if first in OTHER_CLASSES:
        return OTHER_CLASSES[first]
    for ending in ENDINGS:
        first = first.removesuffix(ending)
    plain = first.replace("_", "").lower()
    known = {kind.replace("_", ""): kind for kind in model_types()}
    return next((known[name] for name in (f"{plain}text", plain) if name in known), first.lower() or "?")


def _experts(config: dict[str, Any], arch: Row, model_type: str) -> None:
    """Mixtral and gpt-oss call the width of an expert `intermediate_size`; the others keep both."""
    width = arch.get("moe_intermediate_size")
    if width is None:
        return
    if model_type in ("mixtral", "gpt_oss", "phimoe", "granitemoe"):
        config["intermediate_size"] = width
    else:
        config.setdefault("intermediate_size", width)


def _layer_types(config: dict[str, Any], arch: Row) -> None:
    pattern, layers = str(arch.get("layer_pattern") or ""), arch.get("num_hidden_layers")
    if not isinstance(layers, int):
        return
    found = _PATTERN.search(pattern)
    if found:
        sliding, full = int(found[1]), int(found[2])
        period = ["sliding_attention"] * sliding + ["full_attention"] * full
        config["layer_types"] = (period * layers)[:layers]
    elif "alternate" in pattern:
        config["layer_types"] = (["sliding_attention", "full_attention"] * layers)[:layers]
