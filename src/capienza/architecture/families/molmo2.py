"""Molmo 2."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.wrapper import describe_text_side


def build(config: Config) -> Architecture:
    """The text side of the file."""
    return describe_text_side(config, "molmo2_text", whole_tied=False)
