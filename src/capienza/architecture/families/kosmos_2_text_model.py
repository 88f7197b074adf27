"""The text side of Kosmos 2."""

from __future__ import annotations

from capienza.architecture.kosmos_text import build_kosmos_text
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """With a norm inside attention."""
    return build_kosmos_text(
        config,
        vocab_size=65037,
        max_position_embeddings=2048,
        embed_dim=2048,
        ffn_dim=8192,
        attention_heads=32,
        inner_norm=True,
    )
