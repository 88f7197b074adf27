"""Which model types are run: sixty drawn by a fixed seed, and those that fail for real too, with the reason."""

from __future__ import annotations

from random import Random

from truth.programs import MODEL_TYPES

DRAFT = "a draft model: it reads the keys and values of the model that it drafts for"
NOT_FOR_REAL: dict[str, str] = {
    "blt": "its config has no layer count, which the cache asks for",
    "gemma3n": "its vision tower needs timm",
    "gemma4_assistant": DRAFT,
    "gemma4_unified_assistant": DRAFT,
}
"""They cannot train or generate on the real CPU either."""
FP32_ONLY = {
    "reformer": "its positions are fp32 whatever the model is",
    "xlnet": "its positions are fp32 whatever the model is",
    "xlstm": "its states are fp32 whatever the model is",
}
"""They fail for real in bf16."""
LOOPS_OVER_EXPERTS = {"dbrx", "jetmoe", "longcat_flash"}
"""How often their loops run, and on how much, depends on the tokens. The trace assumes that every expert gets as many,
so in the real run their routers choose so too."""
OTHER_WAYS: dict[str, dict[str, str]] = {
    "program": {
        **dict.fromkeys(
            ("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "roc_bert"),
            "a view that needs a gradient is written to: autograd makes its gradient by `as_strided` for a plain "
            "tensor, by the function of the view for a fake one",
        )
    },
    "generation": {"dory": "it copies a tensor deeply, of a fake one by a clone: as many bytes in one operation"},
}
"""By the kind of program: types whose real run makes other operations than the trace, and why."""
NO_CHECKPOINTING = {"xlm": "the class does not support it"}
SIXTY = tuple(sorted(Random(6).sample([name for name in MODEL_TYPES if name not in {*NOT_FOR_REAL, *FP32_ONLY}], 60)))
FAST = ("bart", "dbrx", "gemma2", "gpt2", "llama", "mamba", "qwen3_moe", "qwen3_next")
"""Encoder and decoder, experts in a loop, windows, learned positions, the usual, a state, grouped experts, a hybrid."""
