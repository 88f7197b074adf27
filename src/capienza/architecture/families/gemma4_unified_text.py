"""Gemma 4 unified, text side."""

from __future__ import annotations

from capienza.architecture.gemma4_layers import UNIFIED, gemma4_model
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config

READS_PER_LAYER = True


def build(config: Config) -> Architecture:
    """Five windowed layers to one full; shared caches where stated."""
    return gemma4_model(config, UNIFIED)
