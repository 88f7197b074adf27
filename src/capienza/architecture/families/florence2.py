"""Florence 2: BART behind an image encoder; its decoder is described."""

from __future__ import annotations

from capienza.architecture.decoder_wrapper import decoder_part
from capienza.architecture.families.bart import DECODER
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import build_decoder
from capienza.architecture.silent_head import note_silent_head

TYPES = ("bart", "florence2_language")
"""The second is what the files of Microsoft's own code call BART."""


def build(config: Config) -> Architecture:
    """The decoder of the text part."""
    return note_silent_head(config, build_decoder(decoder_part(config, "text_config", TYPES, tied=True), DECODER))
