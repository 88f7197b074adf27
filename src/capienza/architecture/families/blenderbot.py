"""The decoder of Blenderbot: a norm after the last layer, none over the embedding."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder_side

DECODER = Decoder(layers=24, heads=32, ffn=10240, vocab=8008, d_model=2560, positions=128, last_norm=True)


def build(config: Config) -> Architecture:
    """The decoder alone."""
    return build_decoder_side(config, DECODER)
