"""Apertus: heads with norms, an MLP without a gate and a learned activation."""

from __future__ import annotations

from capienza.architecture.apertus_layers import apertus_model
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    return apertus_model(config, vocab_size=131_072)
