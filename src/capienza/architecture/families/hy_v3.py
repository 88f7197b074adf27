"""Hy3: grouped heads with norms, experts beside shared ones after the first dense layer."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward, note_prediction_layers, sparse_flags, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, gated_mlp, layer_norms, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config


def build(config: Config) -> Architecture:
    """Experts as `mlp_layer_types` says, else in all layers but the first."""
    config = config.with_aliases(num_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=80, vocab_size=120_832, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=64, num_key_value_heads=8, head_dim=128)
    bias, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    experts, chosen = read_experts(config, "num_experts", 192, per_token=8)
    shared = config.integer("num_shared_experts", 1, maximum=MAX_EXPERTS)
    narrow = config.dimension("moe_intermediate_size", 1536)
    sparse = sparse_forward(
        hidden,
        narrow,
        experts,
        chosen,
        shared=shared,
        shared_pieces=gated_mlp(hidden, shared * narrow, bias=mlp_bias, name="mlp.shared_experts"),
        correction="mlp.e_score_correction_bias",
    )
    dense = dense_forward(hidden, config.dimension("intermediate_size", 13312), bias=mlp_bias)
    note_prediction_layers(config)
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True), *layer_norms(hidden)],
        [
            sparse if holds_experts else dense
            for holds_experts in sparse_flags(config, frame.num_layers, lambda index: index > 0)
        ],
    )
