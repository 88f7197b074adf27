"""Any image encoder with any text decoder (TrOCR, Donut): the decoder is described by its own type."""

from __future__ import annotations

from capienza.architecture import registry
from capienza.architecture.decoder_wrapper import decoder_part
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """The language model of the decoder's part."""
    return registry.build(decoder_part(config, "decoder", None))
