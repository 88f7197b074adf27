"""The indexer of DeepSeek's sparse attention: it scores the tokens, and attention looks at the best ones only.

All tokens stay in the cache, and the indexer keeps a key of its own for each of them, one for all its heads.
Source: `cache_utils.DynamicIndexedLayer` of transformers 5.24, one row of `index_head_dim` a token beside the latent.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.heads import layer_types
from capienza.architecture.latent import Latent
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config, shown
from capienza.errors import phrase

INDEXED = "indexed_attention"
MODES = {"full": True, "shared": False, "F": True, "S": False}


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


def indexed_layers(config: Config, num_layers: int, *, first: int = 0) -> list[bool]:
    """Which layers have an indexer: as a list or a pattern says, else one in `index_topk_freq`.

    The others take the choice of a layer before them, so that the `first` layer that attends must have one.
    """
    key = "indexer_types" if config.raw("indexer_types") is not None else "index_topk_pattern"
    value = config.raw(key)
    if value is None:
        period = config.optional("index_topk_freq", minimum=0) or 1
        offset = config.integer("index_skip_topk_offset", 2, minimum=0)
        return [max(index - offset + 1, 0) % period == 0 for index in range(num_layers)]
    stated = tuple(value) if isinstance(value, str) else config.texts(key) or ()
    if len(stated) != num_layers:
        config.broken_rule(key, value, f"len({key}) == {num_layers}")
    for index, kind in enumerate(stated):
        if kind not in MODES:
            direction = phrase("another kind of layer may keep less cache, or a state of its own")
            config.not_understood(f"{key}[{index}]", shown(kind), ", ".join(MODES), direction)
    if not MODES[stated[first]]:
        config.broken_rule(key, stated[first], "full")
    return [MODES[kind] for kind in stated]
