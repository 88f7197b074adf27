"""The indexer of DeepSeek's sparse attention: it scores the tokens, and attention looks at the best ones only.

All tokens stay in the cache, and the indexer keeps a key of its own for each of them, one for all its heads.
Source: `cache_utils.DynamicIndexedLayer` of transformers 5.24, one row of `index_head_dim` a token beside the latent.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.heads import layer_types
from capienza.architecture.latent import Latent
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config

INDEXED = "indexed_attention"


class Indexer(msgspec.Struct, frozen=True):
    """The heads of an indexer, and the width of its keys."""

    heads: int
    head_dim: int

    def pieces(self, hidden: int, query_rank: int) -> list[Piece]:
        """Queries from the compressed query, keys and weights from the residual stream."""
        name = "self_attn.indexer"
        return [
            *linear(f"{name}.wq_b", self.heads * self.head_dim, query_rank, "attention"),
            *linear(f"{name}.wk", self.head_dim, hidden, "attention"),
            *norm(f"{name}.k_norm", self.head_dim, bias=True),
            *linear(f"{name}.weights_proj", self.heads, hidden, "attention"),
        ]


def read_indexer(config: Config, latent: Latent, num_layers: int, *, index_n_heads: int) -> Indexer:
    """The indexer that all layers have; the argument is the class default."""
    layer_types(config, num_layers, lambda _: INDEXED, {INDEXED})
    width = config.integer("index_head_dim", 128)
    if width < latent.rope:
        config.broken_rule("index_head_dim", width, f"index_head_dim >= qk_rope_head_dim == {latent.rope}")
    return Indexer(config.integer("index_n_heads", index_n_heads), width)
