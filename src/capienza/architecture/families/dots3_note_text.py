"""dots3.note, text side: latent attention of two sizes, wide in a window or narrow with an indexer; experts."""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.dots3_attention import INDEXED, SLIDING, dots3_latents, dots3_types
from capienza.architecture.forward_parts import (
    CORRECTION,
    Forward,
    dense_forward,
    layer_block,
    note_prediction_layers,
    sparse_flags,
    sparse_forward,
)
from capienza.architecture.frame import Frame, read_frame
from capienza.architecture.indexer import Indexer
from capienza.architecture.latent import Latent
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import gated_mlp, linear, norm, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config

READS_PER_LAYER = True


def build(config: Config) -> Architecture:
    """Each layer has its own kind of attention and its own kind of MLP."""
    config = config.with_aliases(n_routed_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=5120, num_hidden_layers=46, vocab_size=152_064, max_position_embeddings=524_288
    )
    hidden = frame.hidden_size
    types = dots3_types(config, frame.num_layers)
    window = config.optional("sliding_window") or config.integer("sliding_window_size", 512)
    indexer = Indexer(config.integer("index_n_heads", 64), config.integer("index_head_dim", 128))
    bias = config.flag("attention_bias", default=False)
    forwards = _forwards(config, frame)
    made: dict[tuple[str, Latent, bool], Block] = {}
    blocks = []
    for kind, latent, flag in zip(types, dots3_latents(config, types), _flags(config, frame.num_layers), strict=True):
        if kind == INDEXED and indexer.head_dim < latent.rope:
            rule = f"index_head_dim >= qk_rope_head_dim == {latent.rope}"
            config.broken_rule("index_head_dim", indexer.head_dim, rule)
        key = (kind, latent, flag)
        if key not in made:
            made[key] = _block(kind, latent, forwards[flag], hidden, window=window, indexer=indexer, bias=bias)
        blocks.append(made[key])
    return assemble(config, frame, blocks)


def _block(
    kind: str, latent: Latent, forward: Forward, hidden: int, *, window: int, indexer: Indexer, bias: bool
) -> Block:
    attention = latent.indexed(indexer.head_dim if kind == INDEXED else 0)
    if kind == SLIDING:
        attention = msgspec.structs.replace(attention, window=window)
    elif kind == INDEXED:  # its rotary positions are fp32, and the keys become so with them
        attention = msgspec.structs.replace(attention, index_dtype="fp32")
    mixing = [
        *latent.pieces(hidden, bias),
        *norm("self_attn.k_rope_only_layernorm", latent.rope),
        *linear("self_attn.g_proj", latent.num_heads, hidden, "attention"),
        *(indexer.pieces(hidden, latent.query_rank or 0) if kind == INDEXED else []),
    ]
    return layer_block(hidden, forward, mixing, attention=attention)


def _forwards(config: Config, frame: Frame) -> dict[bool, Forward]:
    """The MLP of dense layers (false), the experts of the others (true)."""
    hidden = frame.hidden_size
    width = config.dimension("moe_intermediate_size", 1536)
    experts, chosen = read_experts(config, "n_routed_experts", 256, per_token=8)
    shared = config.integer("n_shared_experts", 1, maximum=MAX_EXPERTS)
    older = config.optional("moe_shared_expert_intermediate_size")
    shared_width = older or config.integer("shared_experts_intermediate_size", 1536)
    note_prediction_layers(config)
    beside = gated_mlp(hidden, shared * shared_width, name="mlp.shared_experts")
    return {
        False: dense_forward(hidden, config.dimension("intermediate_size", 13824)),
        True: sparse_forward(
            hidden, width, experts, chosen, shared=shared, shared_pieces=beside, correction=CORRECTION
        ),
    }


def _flags(config: Config, num_layers: int) -> list[bool]:
    """Experts from `first_k_dense_replace` on; `moe_layer_freq` is a period, or a list of 0 and 1."""
    first = config.integer("first_k_dense_replace", 1, minimum=0)
    key = "moe_layer_freq"
    if isinstance(config.raw(key), list | tuple):
        stated = config.integers(key, maximum=1) or ()
        if len(stated) != num_layers:
            config.broken_rule(key, stated, f"len({key}) == {num_layers}")
        return sparse_flags(config, num_layers, lambda index: index >= first and stated[index] == 1)
    period = config.integer(key, 1)
    return sparse_flags(config, num_layers, lambda index: index >= first and index % period == 0)
