"""MusicGen Melody: what conditions its decoder comes before the codes."""

from __future__ import annotations

from capienza.architecture.decoder_notes import PREFIX_PLACES
from capienza.architecture.model import Architecture
from capienza.architecture.musicgen_parts import build_musicgen
from capienza.architecture.reading import Config
from capienza.errors import phrase


def build(config: Config) -> Architecture:
    """The decoder of the file; it has no cross-attention."""
    count = config.integer("chroma_length", 235)
    config.notes.append(PREFIX_PLACES(source=phrase("a melody"), count=count))
    return build_musicgen(config, crosses=False)
