"""The decoder of BigBird-Pegasus: full attention without biases, a head that is never tied."""

from __future__ import annotations

import msgspec

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder_side

DECODER = Decoder(layers=16, heads=16, ffn=4096, vocab=96103, positions=4096, embedding_norm=True, ties=False)


def build(config: Config) -> Architecture:
    """The decoder alone; the blocks of sparse attention belong to the encoder."""
    return build_decoder_side(config, msgspec.structs.replace(DECODER, bias=config.flag("use_bias", False)))
