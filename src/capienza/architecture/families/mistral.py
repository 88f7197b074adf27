"""Mistral: Llama's block, with a window for every layer or for none."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike. A config without `sliding_window` has the class default of 4096; null means no window."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=131_072
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=8)
    attention = uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window", 4096))
    return assemble_plain(config, frame, heads, [attention] * frame.num_layers, intermediate_size=14336)
