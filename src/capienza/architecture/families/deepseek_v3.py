"""DeepSeek V3 and R1: latent attention, experts after the first dense layers."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.mixture import assemble_mixture
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts."""
    config = config.with_aliases(n_routed_experts="num_local_experts", num_nextn_predict_layers="num_mtp_layers")
    frame = read_frame(config, hidden_size=7168, num_hidden_layers=61, vocab_size=129_280, max_position_embeddings=4096)
    latent = read_latent(config, num_attention_heads=128)
    return assemble_mixture(
        config,
        frame,
        latent.attention,
        latent.pieces(frame.hidden_size, config.flag("attention_bias", default=False)),
        intermediate_size=18432,
        moe_intermediate_size=2048,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
        first_k_dense_replace=3,
        correction=True,
    )
