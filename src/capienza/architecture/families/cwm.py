"""Code World Model: Llama's block; the first layer of every four is full, the others slide."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says, by the rule of the class without it; no bias in attention."""
    frame = read_frame(
        config, hidden_size=6144, num_hidden_layers=64, vocab_size=128_256, max_position_embeddings=131_072
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=48, num_key_value_heads=8, head_dim=128)
    types = layer_types(config, frame.num_layers, lambda index: "sliding_attention" if index % 4 else "full_attention")
    layers = attentions(config, heads, types, config.optional("sliding_window", 8192))
    return assemble_plain(
        config, frame, heads, layers, intermediate_size=21504, mlp_bias=config.flag("mlp_bias", default=False)
    )
