"""Granite mixtures with windows: a learned sink for each head, one full layer in four, a shared MLP in some."""

from __future__ import annotations

from capienza.architecture.forward_parts import Forward
from capienza.architecture.frame import read_frame
from capienza.architecture.granite_parts import granite_mixture, granite_shared_mlp
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, layer_norms, sinks
from capienza.architecture.reading import Config
from capienza.architecture.window_patterns import ruled_attentions


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says; without it the first of every four is full."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    bias = config.flag("attention_bias", default=False)
    shared_width = config.integer("shared_intermediate_size", 0, minimum=0)
    mlp, experts = granite_mixture(config, hidden, shared_width)
    return assemble_stack(
        config,
        frame,
        ruled_attentions(config, heads, frame.num_layers, window=128, full=lambda index: index % 4 == 0),
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *sinks(heads), *layer_norms(hidden)],
        [Forward(mlp, [*experts, *granite_shared_mlp(hidden, shared_width)])] * frame.num_layers,
    )
