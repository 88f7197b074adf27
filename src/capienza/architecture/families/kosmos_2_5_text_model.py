"""The text side of Kosmos 2.5."""

from __future__ import annotations

from capienza.architecture.kosmos_text import build_kosmos_text
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """With a table that tells image and text apart."""
    return build_kosmos_text(
        config,
        vocab_size=108_481,
        max_position_embeddings=4096,
        embed_dim=1536,
        ffn_dim=6144,
        attention_heads=16,
        inner_norm=False,
        segments=2,
    )
