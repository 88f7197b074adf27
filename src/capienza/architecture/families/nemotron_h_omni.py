"""Nemotron-H Omni; the first files keep the text part under `llm_config`."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.text_parts import with_older_part
from capienza.architecture.wrapper import describe_text_side


def build(config: Config) -> Architecture:
    """The text side of the file, which alone says whether the head is tied."""
    return describe_text_side(with_older_part(config, "llm_config"), "nemotron_h", says_tied="text")
