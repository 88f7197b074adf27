"""DeepSeek V2: latent attention, experts after the first dense layers."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.mixture import assemble_mixture
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts."""
    config = config.with_aliases(n_routed_experts="num_experts")
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=102_400, max_position_embeddings=2048)
    latent = read_latent(config, num_attention_heads=32)
    return assemble_mixture(
        config,
        frame,
        latent.attention,
        latent.pieces(frame.hidden_size, config.flag("attention_bias", default=False)),
        intermediate_size=11008,
        moe_intermediate_size=1407,
        n_routed_experts=64,
        n_shared_experts=2,
        num_experts_per_tok=None,
        first_k_dense_replace=0,
        mlp_bias=config.flag("mlp_bias", default=False),
    )
