"""Command R7B, Command A: one full layer in four, one norm for attention and MLP together."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, read_heads, sparse_full_types
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Every `sliding_window_pattern`-th layer is full, unless `layer_types` says otherwise."""
    frame = read_frame(
        config,
        hidden_size=8192,
        num_hidden_layers=40,
        vocab_size=256_000,
        max_position_embeddings=8192,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=64)
    types = sparse_full_types(config, frame.num_layers, pattern=4)
    layers = attentions(config, heads, types, config.optional("sliding_window", 4096))
    bias = config.flag("attention_bias", default=False)
    return assemble_plain(
        config,
        frame,
        heads,
        layers,
        intermediate_size=22528,
        bias=bias,
        output_bias=bias,
        norms=("input_layernorm",),
    )
