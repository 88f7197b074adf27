"""Mistral Small 4: latent attention, experts beside a shared one in every layer."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.mixture import assemble_mixture
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts: all of them, unless the file says otherwise."""
    config = config.with_aliases(n_routed_experts="num_local_experts", num_nextn_predict_layers="num_mtp_layers")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=36, vocab_size=131_072, max_position_embeddings=1_048_576
    )
    latent = read_latent(config, num_attention_heads=32, query_rank=1024, rank=256, nope=64)
    return assemble_mixture(
        config,
        frame,
        latent.attention,
        latent.pieces(frame.hidden_size, config.flag("attention_bias", default=False)),
        intermediate_size=12288,
        moe_intermediate_size=2048,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=4,
        first_k_dense_replace=0,
    )
