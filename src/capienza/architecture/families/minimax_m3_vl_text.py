"""MiniMax M3, text side: full and block-sparse attention, whose indexer keeps a key for each token; experts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import CORRECTION, Forward, layer_block, sparse_flags, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import layer_types, read_heads
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, linear, norm, read_experts
from capienza.architecture.reading import Config

SPARSE = "minimax_m3_sparse"
LAYER_TYPES = frozenset({"full_attention", SPARSE})


def build(config: Config) -> Architecture:
    """Layers as `layer_types` and `mlp_layer_types` say, or the lists of the published files."""
    config = config.with_aliases(num_local_experts="num_experts")
    frame = read_frame(
        config, hidden_size=6144, num_hidden_layers=60, vocab_size=200_064, max_position_embeddings=524_288
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=64, num_key_value_heads=4, head_dim=128)
    own = config.section("sparse_attention_config") or Config({}, config.file, parent=config)
    index_width = own.optional("sparse_index_dim") or config.integer("index_head_dim", 128)
    index_heads = own.optional("sparse_num_index_heads") or config.integer("index_n_heads", 4)
    sparse_rule = _listed(own, "sparse_attention_freq", frame.num_layers, default=False)
    types = layer_types(
        config, frame.num_layers, lambda index: SPARSE if sparse_rule(index) else "full_attention", LAYER_TYPES
    )
    flags = sparse_flags(config, frame.num_layers, _listed(config, "moe_layer_freq", frame.num_layers, default=True))
    plain = attention_pieces(heads, hidden, head_norm=True)
    indexing = [
        *linear("self_attn.indexer.q_proj", index_heads * index_width, hidden, "attention"),
        *linear("self_attn.indexer.k_proj", index_width, hidden, "attention"),
        *norm("self_attn.indexer.q_norm", index_width),
        *norm("self_attn.indexer.k_norm", index_width),
    ]
    full = heads.attention()
    indexed = msgspec.structs.replace(full, index_width=index_width)
    dense, sparse = _dense(config, hidden), _sparse(config, hidden)
    blocks = [
        layer_block(
            hidden,
            sparse if flag else dense,
            [*plain, *indexing] if kind == SPARSE else plain,
            attention=indexed if kind == SPARSE else full,
        )
        for kind, flag in zip(types, flags, strict=True)
    ]
    return assemble(config, frame, blocks)


def _listed(config: Config, key: str, num_layers: int, *, default: bool) -> Callable[[int], bool]:
    """The rule of a list with 1 for each sparse layer."""
    stated = config.integers(key, maximum=1)
    if stated is None:
        return lambda _: default
    if len(stated) != num_layers:
        config.broken_rule(key, stated, f"len({key}) == {num_layers}")
    return lambda index: stated[index] == 1


def _fused_mlp(name: str, hidden: int, width: int) -> list[Piece]:
    """Gate and up in one projection, and down."""
    return [
        *linear(f"{name}.gate_up_proj", 2 * width, hidden, "mlp"),
        *linear(f"{name}.down_proj", hidden, width, "mlp"),
    ]


def _dense(config: Config, hidden: int) -> Forward:
    width = config.dimension("dense_intermediate_size", 12288)
    return Forward(Mlp(kind="dense", intermediate_size=width), _fused_mlp("mlp", hidden, width))


def _sparse(config: Config, hidden: int) -> Forward:
    experts, chosen = read_experts(config, "num_local_experts", 128, per_token=4)
    shared = config.dimension("shared_intermediate_size", 3072)
    return sparse_forward(
        hidden,
        config.dimension("intermediate_size", 3072),
        experts,
        chosen,
        shared=1,
        shared_pieces=_fused_mlp("mlp.shared_experts", hidden, shared),
        correction=CORRECTION,
    )
