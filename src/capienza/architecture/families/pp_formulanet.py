"""PP-FormulaNet: mBART's decoder behind an image encoder; the head is never the embedding."""

from __future__ import annotations

from capienza.architecture.decoder_wrapper import decoder_part
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder

DECODER = Decoder(
    layers=8,
    heads=16,
    ffn=2048,
    vocab=50000,
    d_model=512,
    positions=2560,
    offset=2,
    embedding_norm=True,
    last_norm=True,
    ties=False,
)


def build(config: Config) -> Architecture:
    """The decoder of the text part."""
    return build_decoder(decoder_part(config, "text_config", ("pp_formulanet_text",)), DECODER)
