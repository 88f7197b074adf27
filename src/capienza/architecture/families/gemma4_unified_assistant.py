"""The draft models of Gemma 4 unified."""

from __future__ import annotations

from capienza.architecture.gemma4_drafts import draft_model
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers read the cache of the model that this one drafts for."""
    return draft_model(config, "gemma4_unified_text", backbone=3840)
