"""Qwen2.5-Omni: its thinker is described, the parts that speak are not."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.omni_thinker import describe_thinker
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The text side of the thinker."""
    return describe_thinker(config, "qwen2_5_omni_text")
