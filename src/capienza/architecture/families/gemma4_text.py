"""Gemma 4, text side."""

from __future__ import annotations

from capienza.architecture.gemma4_layers import GEMMA4, gemma4_model
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config

READS_PER_LAYER = True


def build(config: Config) -> Architecture:
    """Five windowed layers to one full; experts, embeddings for each layer and shared caches where stated."""
    return gemma4_model(config, GEMMA4)
