"""GLM 5: latent attention, and an indexer in the layers that do not take the choice of an earlier one."""

from __future__ import annotations

from capienza.architecture.frame import read_frame
from capienza.architecture.latent import read_latent
from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config, shown
from capienza.architecture.sparse_latent import assemble_sparse_latent
from capienza.errors import phrase

KINDS = {"full": True, "shared": False, "F": True, "S": False}


def build(config: Config) -> Architecture:
    """Layers from `first_k_dense_replace` on hold experts."""
    config = config.with_aliases(
        n_routed_experts=("num_local_experts", "num_experts"), num_nextn_predict_layers="num_mtp_layers"
    )
    frame = read_frame(
        config, hidden_size=6144, num_hidden_layers=78, vocab_size=154_880, max_position_embeddings=202_752
    )
    latent = read_latent(config, num_attention_heads=64, query_rank=2048, nope=192, value=256, compressed=True)
    indexed = _indexed(config, frame.num_layers)
    return assemble_sparse_latent(config, frame, latent, indexed=indexed, intermediate_size=12288, index_n_heads=32)


def _indexed(config: Config, num_layers: int) -> list[bool]:
    """Which layers have an indexer: as a list or a pattern says, else one in `index_topk_freq`."""
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
        if kind not in KINDS:
            direction = phrase("another kind of layer may keep less cache, or a state of its own")
            config.not_understood(f"{key}[{index}]", shown(kind), ", ".join(KINDS), direction)
    if not KINDS[stated[0]]:
        config.broken_rule(key, stated[0], "full")
    return [KINDS[kind] for kind in stated]
