"""Qwen 3 mixtures: fused experts, none shared."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture
from capienza.architecture.qwen_mixture import assemble_qwen_mixture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers attend alike; they slide when `use_sliding_window` is set."""
    config = config.with_aliases(num_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=24, vocab_size=151_936, max_position_embeddings=32768
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=4)
    window = config.optional("sliding_window", 4096) if config.flag("use_sliding_window", default=False) else None
    attention = uniform_attention(config, heads, frame.num_layers, window)
    return assemble_qwen_mixture(
        config,
        frame,
        heads,
        attention,
        intermediate_size=6144,
        moe_intermediate_size=768,
        num_experts=128,
        num_experts_per_tok=8,
    )
