"""The text side of Granite Docling: Granite's block with other class defaults."""

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
        num_hidden_layers=28,
        vocab_size=133_800,
        max_position_embeddings=32768,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=16, num_key_value_heads=4)
    bias = config.flag("attention_bias", default=False)
    return assemble_plain(
        config,
        frame,
        heads,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        intermediate_size=2048,
        bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
    )
