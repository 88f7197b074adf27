"""Emu 3: the text model that writes words and image codes alike."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.wrapper import describe_text_side


def build(config: Config) -> Architecture:
    """The text side of the file, which alone says whether the head is tied."""
    return describe_text_side(config, "emu3_text_model", says_tied="text")
