"""The decoder of BART."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder_side

DECODER = Decoder(layers=12, heads=16, ffn=4096, vocab=50265, offset=2, embedding_norm=True)


def build(config: Config) -> Architecture:
    """The decoder alone."""
    return build_decoder_side(config, DECODER)
