"""The text side of Emu 3: Llama's layout in other sizes."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=184_622, max_position_embeddings=9216)
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=8)
    attentions = [full_attention(config, heads, frame.num_layers)] * frame.num_layers
    bias = config.flag("attention_bias", False)
    return assemble_plain(
        config,
        frame,
        heads,
        attentions,
        intermediate_size=14336,
        bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", False),
    )
