"""GLM 5: latent attention, and an indexer in the layers that do not take the choice of an earlier one."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.indexer import indexed_layers
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
        config, hidden_size=6144, num_hidden_layers=78, vocab_size=154_880, max_position_embeddings=202_752
    )
    latent = read_latent(config, num_attention_heads=64, query_rank=2048, nope=192, value=256, compressed=True)
    indexed = indexed_layers(config, frame.num_layers)
    return assemble_sparse_latent(config, frame, latent, indexed=indexed, intermediate_size=12288, index_n_heads=32)
