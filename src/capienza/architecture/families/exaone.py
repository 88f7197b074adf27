"""EXAONE 3 and 3.5: Llama's class under EXAONE's own keys."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(num_hidden_layers="num_layers")
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=102_400, max_position_embeddings=4096)
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=8)
    bias = config.flag("attention_bias", default=False)
    return assemble_plain(
        config,
        frame,
        heads,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        intermediate_size=14336,
        bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
    )
