"""Sarvam 105B: the class of DeepSeek V3 under older key names."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    late_experts,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
)
from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts."""
    config = config.with_aliases(
        n_routed_experts=("num_local_experts", "num_experts"),
        n_shared_experts="num_shared_experts",
        num_nextn_predict_layers="num_mtp_layers",
    )
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=262_144, max_position_embeddings=4096)
    hidden = frame.hidden_size
    latent = read_latent(config, num_attention_heads=64, query_rank=None)
    mixing = latent.pieces(hidden, config.flag("attention_bias", default=False))
    dense = dense_forward(hidden, config.dimension("intermediate_size", 16384))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=2048,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    note_prediction_layers(config)
    is_sparse = late_experts(config, first=1)
    return assemble(
        config,
        frame,
        [
            layer_block(hidden, sparse if is_sparse(index) else dense, mixing, attention=latent.attention)
            for index in range(frame.num_layers)
        ],
    )
