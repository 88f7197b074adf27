"""Parameter lists of well-known models, built by hand from their published configurations."""

from __future__ import annotations

from typing import Any

Parameter = tuple[str, tuple[int, ...], str]


def decoder(
    *,
    layers: int,
    hidden: int,
    intermediate: int,
    heads: int,
    kv_heads: int,
    vocab: int,
    head_dim: int | None = None,
    tied: bool = False,
    qk_norm: bool = False,
    experts: int = 0,
) -> list[Parameter]:
    """A Llama-shaped decoder; with experts the feed-forward part is fused as in transformers 5."""
    dim = head_dim or hidden // heads
    made: list[Parameter] = [("model.embed_tokens.weight", (vocab, hidden), "embedding")]
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in (
            ("q_proj", heads * dim, hidden),
            ("k_proj", kv_heads * dim, hidden),
            ("v_proj", kv_heads * dim, hidden),
            ("o_proj", hidden, heads * dim),
        ):
            made.append((f"{prefix}self_attn.{name}.weight", (rows, columns), "attention"))
        if qk_norm:
            made += [(f"{prefix}self_attn.{name}_norm.weight", (dim,), "norm") for name in "qk"]
        if experts:
            made += [
                (f"{prefix}mlp.gate.weight", (experts, hidden), "router"),
                (f"{prefix}mlp.experts.gate_up_proj", (experts, 2 * intermediate, hidden), "expert"),
                (f"{prefix}mlp.experts.down_proj", (experts, hidden, intermediate), "expert"),
            ]
        else:
            made += [
                (f"{prefix}mlp.gate_proj.weight", (intermediate, hidden), "mlp"),
                (f"{prefix}mlp.up_proj.weight", (intermediate, hidden), "mlp"),
                (f"{prefix}mlp.down_proj.weight", (hidden, intermediate), "mlp"),
            ]
        made += [
            (f"{prefix}{name}.weight", (hidden,), "norm") for name in ("input_layernorm", "post_attention_layernorm")
        ]
    made.append(("model.norm.weight", (hidden,), "norm"))
    if not tied:
        made.append(("lm_head.weight", (vocab, hidden), "head"))
    return made


def gpt_oss(layers: int, experts: int) -> list[Parameter]:
    """openai/gpt-oss: hidden 2880, 64 heads of 64, 8 KV heads, biases everywhere, experts (experts, in, out)."""
    hidden, heads, kv_heads, dim, vocab = 2880, 64, 8, 64, 201088
    made: list[Parameter] = [
        ("model.embed_tokens.weight", (vocab, hidden), "embedding"),
        ("model.norm.weight", (hidden,), "norm"),
        ("lm_head.weight", (vocab, hidden), "head"),
    ]
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in (
            ("q_proj", heads * dim, hidden),
            ("k_proj", kv_heads * dim, hidden),
            ("v_proj", kv_heads * dim, hidden),
            ("o_proj", hidden, heads * dim),
        ):
            made.append((f"{prefix}self_attn.{name}.weight", (rows, columns), "attention"))
            made.append((f"{prefix}self_attn.{name}.bias", (rows,), "attention"))
        made += [
            (f"{prefix}self_attn.sinks", (heads,), "attention"),
            (f"{prefix}input_layernorm.weight", (hidden,), "norm"),
            (f"{prefix}post_attention_layernorm.weight", (hidden,), "norm"),
            (f"{prefix}mlp.router.weight", (experts, hidden), "router"),
            (f"{prefix}mlp.router.bias", (experts,), "router"),
            (f"{prefix}mlp.experts.gate_up_proj", (experts, hidden, 2 * hidden), "expert"),
            (f"{prefix}mlp.experts.gate_up_proj_bias", (experts, 2 * hidden), "expert"),
            (f"{prefix}mlp.experts.down_proj", (experts, hidden, hidden), "expert"),
            (f"{prefix}mlp.experts.down_proj_bias", (experts, hidden), "expert"),
        ]
    return made


MISTRAL_7B: dict[str, Any] = {
    "layers": 32, "hidden": 4096, "intermediate": 14336, "heads": 32, "kv_heads": 8, "vocab": 32000
}  # fmt: skip
LLAMA_31_8B: dict[str, Any] = {**MISTRAL_7B, "vocab": 128256}
