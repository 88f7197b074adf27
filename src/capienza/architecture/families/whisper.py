"""The decoder of Whisper: K has no bias, and the head bears another name."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder_side

DECODER = Decoder(
    layers=4,
    heads=6,
    ffn=1536,
    vocab=51865,
    d_model=384,
    positions=448,
    positions_key="max_target_positions",
    last_norm=True,
    key_bias=False,
    head="proj_out",
)


def build(config: Config) -> Architecture:
    """The decoder alone; a recording adds the cache of its cross-attention."""
    return build_decoder_side(config, DECODER)
