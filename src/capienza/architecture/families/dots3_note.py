"""dots3.note with vision and sound; older files keep the text's keys at the top."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.wrapper import describe_text_side

READS_PER_LAYER = True


def build(config: Config) -> Architecture:
    """The text side of the file."""
    return describe_text_side(config, "dots3_note_text", says_tied="text", flat=True)
