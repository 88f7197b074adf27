"""Doge: attention with a learned mask, scaled residuals; mixtures add millions of experts of one column each."""

from __future__ import annotations

import math

from capienza.architecture.forward_parts import Forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms, linear
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; a window only where it is stated."""
    frame = read_frame(config, hidden_size=1024, num_hidden_layers=32, vocab_size=32768, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=8)
    bias = config.flag("attention_bias", default=False)
    masks: list[Piece] = [
        ("self_attn.A", (heads.num_key_value_heads,), "attention"),
        *linear("self_attn.dt_proj", heads.num_key_value_heads, heads.key_width, "attention", bias),
    ]
    residuals: list[Piece] = [(name, (hidden,), "other") for name in ("input_residual", "post_attention_residual")]
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
        *masks,
        *residuals,
        *layer_norms(hidden),
    ]
    attention = uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window"))
    return assemble_stack(
        config, frame, [attention] * frame.num_layers, common, [_forward(config, hidden)] * frame.num_layers
    )


def _forward(config: Config, hidden: int) -> Forward:
    """The MLP runs for every token; each expert beside it is one row of two tables."""
    width = config.dimension("intermediate_size", 2048)
    pieces = gated_mlp(hidden, width, bias=config.flag("mlp_bias", default=False))
    if config.flag("is_moe", default=False):
        experts = config.integer("num_experts", 16384)
        pieces += [
            *linear("mlp.router_gate", 2 * math.isqrt(experts), hidden, "router"),
            ("mlp.down_embed.weight", (experts, hidden), "embedding"),
            ("mlp.up_embed.weight", (experts, hidden), "embedding"),
        ]
    return Forward(Mlp(kind="dense", intermediate_size=width), pieces)
