"""Apertus 1.5, text side: Apertus with codes of images and sounds in its vocabulary, left out of the head."""

from __future__ import annotations

from capienza.architecture.apertus_layers import apertus_model
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    return apertus_model(config, vocab_size=266_752, pruned_head=True)
