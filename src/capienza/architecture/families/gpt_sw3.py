"""GPT-SW3: GPT-2 under another name."""

from __future__ import annotations

from capienza.architecture.families import gpt2
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    return gpt2.build(config)
