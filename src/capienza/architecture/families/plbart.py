"""The decoder of PLBART: BART in other sizes."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder_side

DECODER = Decoder(layers=6, heads=12, ffn=3072, vocab=50005, d_model=768, offset=2, embedding_norm=True)


def build(config: Config) -> Architecture:
    """The decoder alone."""
    return build_decoder_side(config, DECODER)
