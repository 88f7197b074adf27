"""Ministral: Mistral's block with a kind of attention for each layer."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers as `layer_types` says; without it all slide when there is a window."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=131_072
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=8)
    window = config.optional("sliding_window", 4096)
    kind = "full_attention" if window is None else "sliding_attention"
    types = layer_types(config, frame.num_layers, lambda _: kind)
    return assemble_plain(config, frame, heads, attentions(config, heads, types, window), intermediate_size=14336)
