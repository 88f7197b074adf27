"""How a family writes its block where parameters do not tell: data read from transformers' modeling files (5.24).

A model type that is not in the table is written as Llama is: RMS norm, silu, rotary positions over the whole head.
What `config.json` states wins over the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

NormKind = Literal[
    "rms", "rms_plus_one", "rms_late", "rms_wide", "layer", "layer_written", "layer_fp32", "layer_plus_one",
    "layer_apart",
]  # fmt: skip
Activation = Literal["one", "gelu_new", "relu2"]


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What the parameters of a block do not say.

    `norm`: the operations of a norm. `rotary`: how positions enter; `rotary_share` of a head is turned, `rotary_fp32`
    says what of it is in fp32 (positions, rows), `joins_rotary` that a `cat` follows though the whole head is turned.
    `scales`: what is multiplied by a number: a table's rows in its module, the embedding after it, residual, logits.
    `caps`: tanh over scores or logits.
    `dropouts`: embedding, attention, residual. `held`: results (norm, attention) that last to the end of the block.
    `wide_shares`: a router's shares stay in fp32.
    """

    norm: NormKind = "rms"
    activation: Activation = "one"
    rotary: Literal["half", "interleaved", "none"] = "half"
    rotary_fp32: frozenset[str] = frozenset()
    rotary_share: float = 1.0
    joins_rotary: bool = False
    scales: frozenset[str] = frozenset()
    caps: frozenset[str] = frozenset()
    dropouts: frozenset[str] = frozenset()
    is_parallel: bool = False
    held: frozenset[str] = frozenset()
    wide_shares: bool = False


TYPES: dict[str, Traits] = {
    "gemma": Traits(norm="rms_plus_one", scales=frozenset({"table"})),
    "gemma2": Traits(norm="rms_plus_one", scales=frozenset({"table"}), caps=frozenset({"attention", "logits"})),
    "gemma3_text": Traits(norm="rms_plus_one", scales=frozenset({"table"})),
    "gemma3": Traits(norm="rms_plus_one", scales=frozenset({"table"})),
    "olmo": Traits(norm="layer_fp32", rotary_fp32=frozenset({"positions"})),
    "olmo2": Traits(norm="rms_late", rotary_fp32=frozenset({"positions"})),
    "olmo3": Traits(norm="rms_late", rotary_fp32=frozenset({"positions"})),
    "phi3": Traits(joins_rotary=True),
    "gpt_oss": Traits(norm="rms_late"),
    "helium": Traits(norm="rms_wide", rotary="interleaved"),
    "cohere": Traits(
        norm="layer_written", rotary_fp32=frozenset({"rows"}), scales=frozenset({"logits"}), is_parallel=True
    ),
    "cohere2": Traits(
        norm="layer_written", rotary_fp32=frozenset({"rows"}), scales=frozenset({"logits"}), is_parallel=True
    ),
    "ernie4_5": Traits(rotary="interleaved", rotary_fp32=frozenset({"positions", "rows"})),
    "glm": Traits(rotary="interleaved", rotary_share=0.5),
    "glm4": Traits(rotary="interleaved", rotary_share=0.5),
    "mixtral": Traits(wide_shares=True),
    "granite": Traits(scales=frozenset({"embedding", "residual", "logits"})),
    "nemotron": Traits(norm="layer_plus_one", activation="relu2", rotary_share=0.5),
    "arcee": Traits(activation="relu2"),
    "stablelm": Traits(rotary_share=0.25, held=frozenset({"norm", "attention"})),
    "phi": Traits(activation="gelu_new", rotary_share=0.5, is_parallel=True),
    "falcon": Traits(is_parallel=True),
    "gpt_neox": Traits(rotary_share=0.25, is_parallel=True),
    "gpt2": Traits(
        activation="gelu_new",
        rotary="none",
        dropouts=frozenset({"embedding", "attention", "residual"}),
        held=frozenset({"attention"}),
    ),
    "gpt_bigcode": Traits(
        rotary="none",
        dropouts=frozenset({"embedding", "attention", "residual"}),
        held=frozenset({"attention"}),
    ),
    "seed_oss": Traits(dropouts=frozenset({"attention", "residual"})),
}
COMPARED = frozenset(
    {
        "cohere", "ernie4_5", "exaone4", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "gpt2", "gpt_bigcode",
        "gpt_neox", "granite", "helium", "hunyuan_v1_dense", "arcee", "llama", "mistral", "mixtral", "nemotron",
        "olmo", "olmo2", "phi", "phi3", "qwen2", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2",
    }
)  # fmt: skip
"""Model types whose forward and backward passes were compared with a trace of transformers' code."""
ACTIVATIONS: dict[str, Activation] = {"gelu_new": "gelu_new", "relu2": "relu2"}
ACTIVATION_KEYS = ("hidden_activation", "hidden_act", "activation_function", "activation")
SHARE_KEYS = ("partial_rotary_factor", "rotary_pct", "rope_pct")
DROPOUT_KEYS = {
    "embedding": ("embd_pdrop", "embedding_dropout"),
    "attention": ("attention_dropout", "attn_pdrop"),
    "residual": ("resid_pdrop", "hidden_dropout", "dropout", "residual_dropout"),
}
CAP_KEYS = {"attention": "attn_logit_softcapping", "logits": "final_logit_softcapping"}


def traits_of(model_type: str, config: Mapping[str, Any] | None = None) -> Traits:
    """The family's traits, and over them what the configuration states."""
    found = TYPES.get(model_type, Traits())
    if not config:
        return found
    changes: dict[str, Any] = {}
    activation = next((config[key] for key in ACTIVATION_KEYS if config.get(key)), None)
    if activation is not None:
        changes["activation"] = ACTIVATIONS.get(str(activation), "one")
    rope = config.get("rope_parameters")
    share = next((one[key] for one in (config, rope or {}) for key in SHARE_KEYS if key in one), None)
    if isinstance(share, (int, float)):
        changes["rotary_share"] = float(share)
    dropouts = set(found.dropouts)
    for place, keys in DROPOUT_KEYS.items():
        rate = next((config[key] for key in keys if key in config), None)
        if rate is not None:
            dropouts = dropouts | {place} if rate else dropouts - {place}
    caps = {place for place, key in CAP_KEYS.items() if config.get(key, place if place in found.caps else None)}
    parallel = config.get("use_parallel_residual", found.is_parallel)
    return msgspec.structs.replace(
        found, **changes, dropouts=frozenset(dropouts), caps=frozenset(caps), is_parallel=bool(parallel)
    )
