"""Mellum: windows and experts layer by layer as the config lists them."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import (
    dense_forward,
    layer_block,
    note_prediction_layers,
    sparse_flags,
    sparse_forward,
)
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers full and with experts, unless `layer_types` and `mlp_layer_types` say otherwise."""
    config = config.with_aliases(num_experts="num_local_experts", num_mtp_layers="num_nextn_predict_layers")
    frame = read_frame(
        config, hidden_size=2304, num_hidden_layers=28, vocab_size=98304, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=4, head_dim=128)
    types = layer_types(config, frame.num_layers, lambda _: "full_attention")
    layers = attentions(config, heads, types, config.optional("sliding_window", 1024))
    bias = config.flag("attention_bias", default=False)
    mixing = attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True)
    experts, chosen = read_experts(config, "num_experts", 64, per_token=8)
    width = config.dimension("moe_intermediate_size", 896)
    sparse = sparse_forward(hidden, width, experts, chosen)
    dense = dense_forward(hidden, config.dimension("intermediate_size", 7168))
    note_prediction_layers(config, "num_mtp_layers")
    flags = sparse_flags(config, frame.num_layers, lambda _: True)
    blocks = [
        layer_block(hidden, sparse if flag else dense, mixing, attention=attention)
        for flag, attention in zip(flags, layers, strict=True)
    ]
    return assemble(config, frame, blocks)
