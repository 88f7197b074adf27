"""What DeepSeek V3.2 and GLM 5 share: latent attention with an indexer, experts after the first dense layers."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    late_experts,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
    sparse_flags,
)
from capienza.architecture.frame import Frame
from capienza.architecture.indexer import read_indexer
from capienza.architecture.latent import Latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.errors import phrase


def assemble_sparse_latent(
    config: Config,
    frame: Frame,
    latent: Latent,
    *,
    indexed: Sequence[bool] | None,
    intermediate_size: int,
    index_n_heads: int,
) -> Architecture:
    """A model of indexed layers; those that `indexed` leaves out take the choice of the layer before them."""
    hidden = frame.hidden_size
    indexer = read_indexer(config, latent, frame.num_layers, index_n_heads=index_n_heads)
    mixing = latent.pieces(hidden, config.flag("attention_bias", default=False))
    indexing = indexer.pieces(hidden, latent.query_rank or 0)
    dense = dense_forward(hidden, config.dimension("intermediate_size", intermediate_size))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=2048,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    frequency = config.optional("moe_layer_freq")
    if frequency not in (None, 1):
        direction = phrase("with dense layers among the experts the weights would come out too large")
        config.not_understood("moe_layer_freq", frequency, "1", direction)
    note_prediction_layers(config)
    flags = sparse_flags(config, frame.num_layers, late_experts(config, first=3))
    blocks = [
        layer_block(
            hidden,
            sparse if flag else dense,
            [*mixing, *indexing] if has_indexer else mixing,
            attention=latent.indexed(indexer.head_dim if has_indexer else 0),
        )
        for flag, has_indexer in zip(flags, indexed or [True] * frame.num_layers, strict=True)
    ]
    return assemble(config, frame, blocks)
