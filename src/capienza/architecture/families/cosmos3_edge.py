"""Cosmos 3 Edge."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.wrapper import describe_text_side


def build(config: Config) -> Architecture:
    """The text side of the file."""
    return describe_text_side(config, "cosmos3_edge_text", whole_tied=False)
