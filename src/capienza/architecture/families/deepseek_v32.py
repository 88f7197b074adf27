"""DeepSeek V3.2: latent attention with an indexer in every layer."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.sparse_latent import assemble_sparse_latent


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts."""
    config = config.with_aliases(
        n_routed_experts=("num_local_experts", "num_experts"), num_nextn_predict_layers="num_mtp_layers"
    )
    frame = read_frame(
        config, hidden_size=7168, num_hidden_layers=61, vocab_size=129_280, max_position_embeddings=163_840
    )
    latent = read_latent(config, num_attention_heads=128, compressed=True)
    return assemble_sparse_latent(config, frame, latent, indexed=None, intermediate_size=18432, index_n_heads=64)
