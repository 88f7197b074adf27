"""The text side of ERNIE 4.5 VL: experts for words and experts for images in one layer, beside shared ones."""

from __future__ import annotations

import msgspec

from capienza.architecture.forward_parts import Forward, dense_forward, sparse_flags, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import (
    Piece,
    attention_pieces,
    fused_experts,
    gated_mlp,
    layer_norms,
    linear,
    read_experts,
)
from capienza.architecture.reading import MAX_EXPERTS, Config

WIDTHS = (1536, 512)
"""The class defaults of an expert for words, and of one for images."""


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else in all layers but the first."""
    config = config.with_aliases(moe_num_experts="num_experts", num_experts_per_tok="moe_k")
    frame = read_frame(
        config,
        hidden_size=2560,
        num_hidden_layers=28,
        vocab_size=103_424,
        max_position_embeddings=131_072,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=20, num_key_value_heads=4)
    bias = config.flag("use_bias", default=False)
    dense = dense_forward(hidden, config.dimension("intermediate_size", 12288), bias=bias)
    sparse = _experts(config, hidden, bias)
    flags = sparse_flags(config, frame.num_layers, lambda index: index > 0)
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *layer_norms(hidden)],
        [sparse if flag else dense for flag in flags],
    )


def _experts(config: Config, hidden: int, bias: bool) -> Forward:
    """As many experts of each sort, and shared ones as wide as those for words; words go to the first sort."""
    experts, chosen = read_experts(config, "moe_num_experts", 64, per_token=6)
    stated = config.integers("moe_intermediate_size", minimum=1)
    widths = WIDTHS if stated is None else stated
    if len(widths) != len(WIDTHS):
        config.broken_rule("moe_intermediate_size", widths, f"len(moe_intermediate_size) == {len(WIDTHS)}")
    shared = config.integer("moe_num_shared_experts", 2, minimum=0, maximum=MAX_EXPERTS)
    pieces: list[Piece] = []
    for sort, width in zip(("text", "vision"), widths, strict=True):
        name = f"mlp.{sort}_moe"
        pieces += linear(f"{name}.gate", experts, hidden, "router")
        pieces.append((f"{name}.gate.moe_statics.e_score_correction_bias", (1, experts), "router"))
        pieces += fused_experts(experts, hidden, width, name=f"{name}.experts")
    if shared:
        pieces += gated_mlp(hidden, shared * widths[0], bias=bias, name="mlp.shared_experts")
    return msgspec.structs.replace(sparse_forward(hidden, widths[0], experts, chosen, shared=shared), pieces=pieces)
