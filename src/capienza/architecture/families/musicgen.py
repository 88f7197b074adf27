"""MusicGen: its decoder attends to the text encoder's output."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.musicgen_parts import build_musicgen
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The decoder of the file."""
    return build_musicgen(config, crosses=True)
