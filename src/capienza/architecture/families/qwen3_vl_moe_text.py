"""The text side of the Qwen3-VL mixtures: those of Qwen 3 without windows."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.qwen_mixture import assemble_qwen_mixture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers attend alike."""
    config = config.with_aliases(num_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=24, vocab_size=151_936, max_position_embeddings=128_000
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=16, num_key_value_heads=16)
    attention = full_attention(config, heads, frame.num_layers)
    return assemble_qwen_mixture(
        config,
        frame,
        heads,
        attention,
        intermediate_size=5632,
        moe_intermediate_size=1408,
        num_experts=60,
        num_experts_per_tok=4,
    )
