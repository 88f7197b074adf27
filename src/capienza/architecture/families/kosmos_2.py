"""Kosmos 2: what its text side sees of an image takes places in the sequence."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.silent_head import describe_either_head


def build(config: Config) -> Architecture:
    """The text side of the file."""
    return describe_either_head(config, "kosmos_2_text_model")
