"""Granite with windows: Granite's block, a learned sink for each head, one full layer in four."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, layer_norms, sinks
from capienza.architecture.reading import Config
from capienza.architecture.window_patterns import ruled_attentions


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says; without it the first of every four is full."""
    frame = read_frame(
        config,
        hidden_size=2560,
        num_hidden_layers=24,
        vocab_size=100_352,
        max_position_embeddings=8192,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=20, num_key_value_heads=4)
    bias = config.flag("attention_bias", default=False)
    width = config.dimension("intermediate_size", 8192)
    return assemble_stack(
        config,
        frame,
        ruled_attentions(config, heads, frame.num_layers, window=128, full=lambda index: index % 4 == 0),
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *sinks(heads), *layer_norms(hidden)],
        [dense_forward(hidden, width, bias=config.flag("mlp_bias", default=False))] * frame.num_layers,
    )
