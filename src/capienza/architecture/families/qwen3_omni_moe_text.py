"""The text side of Qwen3-Omni's thinker: Qwen 3's mixture; a stated window is that of every layer's cache."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture
from capienza.architecture.qwen_mixture import assemble_qwen_mixture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers attend alike."""
    config = config.with_aliases(num_experts="num_local_experts")
    frame = read_frame(config, hidden_size=2048, num_hidden_layers=28, vocab_size=3584, max_position_embeddings=32768)
    heads = read_heads(config, frame.hidden_size, num_attention_heads=28, num_key_value_heads=4)
    attention = uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window"))
    return assemble_qwen_mixture(
        config,
        frame,
        heads,
        attention,
        intermediate_size=18944,
        moe_intermediate_size=768,
        num_experts=128,
        num_experts_per_tok=8,
    )
