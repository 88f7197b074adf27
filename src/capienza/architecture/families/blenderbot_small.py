"""The decoder of Blenderbot Small: a norm over the embedding."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder_side

DECODER = Decoder(layers=8, heads=16, ffn=2048, vocab=50265, d_model=512, positions=512, embedding_norm=True)


def build(config: Config) -> Architecture:
    """The decoder alone."""
    return build_decoder_side(config, DECODER)
