"""Hy4's layers: gated latent attention with sinks, an indexer in one of four, several streams around every one."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    layer_block,
    note_prediction_layers,
    read_deepseek_experts,
    sparse_flags,
)
from capienza.architecture.frame import Frame
from capienza.architecture.indexer import read_indexer
from capienza.architecture.latent import Latent
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config
from capienza.errors import phrase


def assemble_hyper_latent(
    config: Config,
    frame: Frame,
    latent: Latent,
    *,
    index_n_heads: int,
    intermediate_size: int,
    moe_intermediate_size: int,
) -> Architecture:
    """Experts as `mlp_layer_types` says, else in all layers but the first; the numbers are class defaults."""
    hidden = frame.hidden_size
    indexer = read_indexer(config, latent, frame.num_layers, index_n_heads=index_n_heads)
    streams = config.integer("hc_mult", 4)
    mixing: list[Piece] = [
        *latent.pieces(hidden, config.flag("attention_bias", default=False)),
        *linear("self_attn.gate_proj", latent.num_heads * latent.value, hidden, "attention"),
        ("self_attn.sinks", (latent.num_heads,), "attention"),
        *_connection("attn_hc", streams, hidden),
        *_connection("ffn_hc", streams, hidden),
    ]
    indexing = indexer.pieces(hidden, latent.query_rank or 0)
    dense = dense_forward(hidden, config.dimension("intermediate_size", intermediate_size))
    sparse = read_deepseek_experts(
        config,
        hidden,
        moe_intermediate_size=moe_intermediate_size,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    note_prediction_layers(config)
    flags = sparse_flags(config, frame.num_layers, lambda index: index > 0)
    blocks = [
        layer_block(
            hidden,
            sparse if flag else dense,
            [*mixing, *indexing] if indexed else mixing,
            attention=latent.indexed(indexer.head_dim if indexed else 0),
        )
        for flag, indexed in zip(flags, _indexed(config, frame.num_layers), strict=True)
    ]
    head: list[Piece] = [
        ("model.hc_head.hc_fn", (streams, streams * hidden), "other"),
        ("model.hc_head.hc_base", (streams,), "other"),
        ("model.hc_head.hc_scale", (1,), "other"),
    ]
    return assemble(config, frame, blocks, after=[*norm("model.norm", hidden), *head])


def _connection(name: str, streams: int, hidden: int) -> list[Piece]:
    """How a part of the layer takes its input from the streams, and gives its output back to them."""
    return [
        (f"{name}.fn", (2 * streams, streams * hidden), "other"),
        (f"{name}.base", (2 * streams,), "other"),
        (f"{name}.scale", (2,), "other"),
    ]


def _indexed(config: Config, num_layers: int) -> list[bool]:
    """Which layers have an indexer; a shared layer takes the choice of the layer before it."""
    stated = config.texts("indexer_types")
    if stated is None:
        return [index == 0 or index % 4 == 1 for index in range(num_layers)]
    if len(stated) != num_layers:
        config.broken_rule("indexer_types", stated, f"len(indexer_types) == {num_layers}")
    for index, kind in enumerate(stated):
        if kind not in ("full", "shared"):
            direction = phrase("another kind of layer may keep less cache, or a state of its own")
            config.not_understood(f"indexer_types[{index}]", kind, "full, shared", direction)
    if stated[0] != "full":
        config.broken_rule("indexer_types[0]", stated[0], "full")
    return [kind == "full" for kind in stated]
