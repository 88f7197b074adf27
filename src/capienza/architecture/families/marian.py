"""The decoder of Marian, which may have a vocabulary of its own."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder_side

DECODER = Decoder(layers=12, heads=16, ffn=4096, vocab=58101, table_key="decoder_vocab_size")


def build(config: Config) -> Architecture:
    """The decoder alone."""
    return build_decoder_side(config, DECODER)
