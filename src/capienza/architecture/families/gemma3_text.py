"""Gemma 3, text side: one full layer in six, a norm over each head of Q and K."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, read_heads, sparse_full_types
from capienza.architecture.model import Architecture
from capienza.architecture.plain import FOUR_NORMS, assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Every `sliding_window_pattern`-th layer is full, unless `layer_types` says otherwise."""
    frame = read_frame(
        config,
        hidden_size=2304,
        num_hidden_layers=26,
        vocab_size=262_208,
        max_position_embeddings=131_072,
        tied=True,
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=8, num_key_value_heads=4, head_dim=256)
    window = config.optional("sliding_window", 4096)
    if window is not None and config.flag("use_bidirectional_attention", False):
        window = window // 2 + 1  # the window then counts both directions
    types = sparse_full_types(config, frame.num_layers, pattern=6)
    layers = attentions(config, heads, types, window)
    bias = config.flag("attention_bias", False)
    return assemble_plain(
        config,
        frame,
        heads,
        layers,
        intermediate_size=9216,
        bias=bias,
        output_bias=bias,
        head_norm=True,
        norms=FOUR_NORMS,
    )
