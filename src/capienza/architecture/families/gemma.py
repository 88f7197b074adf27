"""Gemma 1: Llama's block with a tied head of its own size."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config,
        hidden_size=3072,
        num_hidden_layers=28,
        vocab_size=256_000,
        max_position_embeddings=8192,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=16, num_key_value_heads=16, head_dim=256)
    attentions = [full_attention(config, heads, frame.num_layers)] * frame.num_layers
    bias = config.flag("attention_bias", False)
    return assemble_plain(config, frame, heads, attentions, intermediate_size=24576, bias=bias, output_bias=bias)
