"""Ministral 3: Mistral's block with other class defaults."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture
from capienza.architecture.plain import assemble_plain
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; without a stated window there is none."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=34, vocab_size=131_072, max_position_embeddings=262_144
    )
    heads = read_heads(config, frame.hidden_size, num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    attention = uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window"))
    return assemble_plain(config, frame, heads, [attention] * frame.num_layers, intermediate_size=14336)
