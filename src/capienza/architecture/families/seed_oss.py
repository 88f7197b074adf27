"""Seed-OSS: biases of Q, K and V, and of the output under a key of its own."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=64, vocab_size=155_136, max_position_embeddings=524_288
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=80, num_key_value_heads=8, head_dim=128)
    return assemble_plain(
        config,
        frame,
        heads,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        intermediate_size=27648,
        bias=config.flag("attention_bias", default=True),
        output_bias=config.flag("attention_out_bias", default=False),
        mlp_bias=config.flag("mlp_bias", default=False),
    )
