"""Cohere's North Micro, text side: Command's block; windows only where `layer_types` states them."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The heads always share out the hidden size."""
    frame = read_frame(
        config,
        hidden_size=8192,
        num_hidden_layers=40,
        vocab_size=256_000,
        max_position_embeddings=8192,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=64, shared_out=True)
    types = layer_types(config, frame.num_layers, lambda _: "full_attention")
    window = config.optional("sliding_window", 4096) if "sliding_attention" in types else None
    bias = config.flag("attention_bias", default=False)
    return assemble_plain(
        config,
        frame,
        heads,
        attentions(config, heads, types, window),
        intermediate_size=22528,
        bias=bias,
        output_bias=bias,
        norms=("input_layernorm",),
    )
