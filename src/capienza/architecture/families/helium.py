"""Helium 1: Llama's block; the output projection is square, so the heads always share out the hidden size."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=2560, num_hidden_layers=24, vocab_size=48000, max_position_embeddings=4096)
    heads = read_heads(
        config,
        frame.hidden_size,
        num_attention_heads=20,
        num_key_value_heads=20,
        head_dim=128,
        shared_out=True,
    )
    return assemble_plain(
        config,
        frame,
        heads,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        intermediate_size=7040,
        bias=config.flag("attention_bias", default=False),
        mlp_bias=config.flag("mlp_bias", default=False),
    )
