"""TrOCR: a text decoder whose cross-attention reads an image encoder of any width."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.seq2seq_parts import Decoder, build_decoder


def build(config: Config) -> Architecture:
    """All layers alike; without learned positions they are computed, and no table is stored."""
    config = config.with_aliases(
        d_model="hidden_size", decoder_layers="num_hidden_layers", decoder_attention_heads="num_attention_heads"
    )
    decoder = Decoder(
        layers=12,
        heads=16,
        ffn=4096,
        vocab=50265,
        positions=512 if config.flag("use_learned_position_embeddings", True) else None,
        offset=2,
        embedding_norm=config.flag("layernorm_embedding", True),
        head="output_projection",
        cross_key="cross_attention_hidden_size",
    )
    return build_decoder(config, decoder)
