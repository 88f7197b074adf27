"""A small Llama and recipes for it, for the tests of a training's memory."""

from __future__ import annotations

import msgspec

from capienza.architecture.registry import describe
from capienza.recipe.recipe import (
    Adapters,
    Checkpointing,
    Evaluation,
    Loss,
    Optimizer,
    Precision,
    Recipe,
)

TINY = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "tie_word_embeddings": False,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
}  # fmt: skip
TINY_LLAMA = describe(TINY)
FULL = Recipe(
    framework="transformers",
    framework_version=None,
    objective="sft",
    method="full",
    tokens=128,
    microbatch=2,
    accumulation=1,
    is_packed=False,
    has_padding_mask=True,
    attention="sdpa",
    kernels="transformers",
    is_compiled=False,
    precision=Precision(base="bf16", trained="bf16"),
    optimizer=Optimizer(family="adamw", run="foreach"),
    checkpointing=Checkpointing(kind="none"),
    loss=Loss(kind="full"),
    evaluation=Evaluation(microbatch=0),
)


def replaced(recipe: Recipe = FULL, **fields) -> Recipe:
    """The recipe with other fields; `optimizer_...` and `precision_...` are those of its parts."""
    for part in ("optimizer", "precision"):
        own = {key.removeprefix(f"{part}_"): fields.pop(key) for key in list(fields) if key.startswith(f"{part}_")}
        fields[part] = msgspec.structs.replace(fields.get(part, getattr(recipe, part)), **own)
    return msgspec.structs.replace(recipe, **fields)


def with_adapters(recipe: Recipe = FULL, **fields) -> Recipe:
    """LoRA of rank 8 on queries and values, in fp32."""
    words = {"rank": 8, "alpha": 16, "dropout": 0.0, "targets": ("q_proj", "v_proj"), "dtype": "fp32"} | fields
    return replaced(recipe, method="lora", adapters=Adapters(**words), precision_trained=words["dtype"])
