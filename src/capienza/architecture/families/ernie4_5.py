"""ERNIE 4.5 dense: Llama's block with one switch for all biases."""

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
        hidden_size=1024,
        num_hidden_layers=18,
        vocab_size=103_424,
        max_position_embeddings=131_072,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=16, num_key_value_heads=2, head_dim=128)
    bias = config.flag("use_bias", default=False)
    return assemble_plain(
        config,
        frame,
        heads,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        intermediate_size=3072,
        bias=bias,
        output_bias=bias,
        mlp_bias=bias,
    )
