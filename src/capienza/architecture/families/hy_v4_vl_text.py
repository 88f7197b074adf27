"""The text side of Hy4 with vision: Hy4 with other class defaults."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.hyper_latent import assemble_hyper_latent
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else in all layers but the first."""
    config = config.with_aliases(n_routed_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=6144, num_hidden_layers=78, vocab_size=120_832, max_position_embeddings=262_144
    )
    latent = read_latent(config, num_attention_heads=64, query_rank=2048, nope=192, value=256, compressed=True)
    return assemble_hyper_latent(
        config, frame, latent, index_n_heads=32, intermediate_size=18432, moe_intermediate_size=2048
    )
