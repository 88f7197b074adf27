"""The text side of GLM 5 Next: delta attention in three layers of four, latent attention with an indexer in the other.

The indexer keeps a key, a gate and a mark of validity for each token, and pools them anew at every step.
Several streams run around every layer; the last norm takes their mean.
"""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.forward_parts import (
    Forward,
    dense_forward,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
    sparse_flags,
)
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import layer_types
from capienza.architecture.indexer import INDEXED, Indexer, indexed_layers
from capienza.architecture.kimi_delta import KimiDelta
from capienza.architecture.latent import Latent
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece
from capienza.architecture.reading import Config

LINEAR = "linear_attention"
KINDS = frozenset({INDEXED, LINEAR, "full_attention"})


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else in all layers but the first three."""
    config = config.with_aliases(n_routed_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=45, vocab_size=154_880, max_position_embeddings=1_048_576
    )
    hidden = frame.hidden_size
    latent = _latent(config)
    mixer = _delta(config, hidden).mixer("self_attn")
    indexer = Indexer(config.integer("index_n_heads", 32), config.integer("index_head_dim", 128))
    pool = config.integer("index_kpool", 16)
    budget = config.integer("index_topk", 2048)
    if budget % pool:
        config.broken_rule("index_topk", budget, f"index_topk % index_kpool == 0 == index_topk % {pool}")
    kinds = layer_types(config, frame.num_layers, lambda index: LINEAR if index % 4 != 3 else INDEXED, KINDS)
    attending = [index for index, kind in enumerate(kinds) if kind != LINEAR]
    indexed = indexed_layers(config, frame.num_layers, first=attending[0] if attending else 0)
    streams = _streams(config.integer("hc_mult", 4), hidden)
    mixing = latent.pieces(hidden, config.flag("attention_bias", default=False))
    indexing: list[Piece] = [
        *indexer.pieces(hidden, latent.query_rank or 0),
        ("self_attn.indexer.index_kpool_compress_ape", (pool, indexer.head_dim), "attention"),
        ("self_attn.indexer.index_kpool_compress_gate", (indexer.head_dim, hidden), "attention"),
    ]
    forwards = _forwards(config, hidden)
    blocks: list[Block] = []
    flags = sparse_flags(config, frame.num_layers, lambda index: index >= 3)
    for kind, flag, has_indexer in zip(kinds, flags, indexed, strict=True):
        if kind == LINEAR:
            blocks.append(layer_block(hidden, forwards[flag], [*mixer.pieces, *streams], state=mixer.state))
            continue
        attention = latent.indexed(2 * indexer.head_dim + 1 if has_indexer else 0)
        pieces = [*mixing, *streams, *(indexing if has_indexer else [])]
        blocks.append(layer_block(hidden, forwards[flag], pieces, attention=attention))
    return assemble(config, frame, blocks)


def _forwards(config: Config, hidden: int) -> dict[bool, Forward]:
    """The MLP of dense layers (false), the experts of the others (true)."""
    note_prediction_layers(config)
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=2048,
        n_routed_experts=288,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    return {False: dense_forward(hidden, config.dimension("intermediate_size", 12288)), True: sparse}


def _latent(config: Config) -> Latent:
    """Latent attention without a rotary part, and as many keys as queries."""
    heads = config.dimension("num_attention_heads", 64)
    kv_heads = config.optional("num_key_value_heads", 64) or heads
    if kv_heads != heads:
        config.broken_rule("num_key_value_heads", kv_heads, f"num_key_value_heads == num_attention_heads == {heads}")
    rope = config.integer("qk_rope_head_dim", 0, minimum=0)
    if rope:
        config.broken_rule("qk_rope_head_dim", rope, "qk_rope_head_dim == 0")
    return Latent(
        num_heads=heads,
        num_key_value_heads=heads,
        query_rank=config.integer("q_lora_rank", 1536),
        rank=config.dimension("kv_lora_rank", 512),
        nope=config.integer("qk_nope_head_dim", 256),
        rope=0,
        value=config.integer("v_head_dim", 256),
    )


def _delta(config: Config, hidden: int) -> KimiDelta:
    """Delta attention; published files may state its sizes in a part of their own, which then decides."""
    part = config.section("linear_attn_config") or Config({}, config.file, prefix=config.prefix, parent=config)
    return KimiDelta(
        hidden=hidden,
        heads=part.optional("num_heads") or config.integer("linear_num_heads", 64),
        head_dim=part.optional("head_dim") or config.integer("linear_head_dim", 128),
        kernel=part.optional("short_conv_kernel_size") or config.integer("linear_conv_kernel_dim", 4),
        bottleneck=True,
        flat_decay=True,
    )


def _streams(count: int, hidden: int) -> list[Piece]:
    """How attention and MLP take their input from the streams, give their output back, and mix them."""
    rows = (2 + count) * count
    return [
        piece
        for name in ("attn_hc", "ffn_hc")
        for piece in (
            (f"{name}.fn", (rows, count * hidden), "other"),
            (f"{name}.base", (rows,), "other"),
            (f"{name}.scale", (3,), "other"),
        )
    ]
