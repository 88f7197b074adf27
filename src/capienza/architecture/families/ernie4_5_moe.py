"""ERNIE 4.5 mixtures: one switch for all biases (the head too), experts in a range of layers."""

from __future__ import annotations

from capienza.architecture.forward_parts import dense_forward, note_prediction_layers, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms, linear, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config


def build(config: Config) -> Architecture:
    """Every `moe_layer_interval`-th layer from `moe_layer_start_index` to `moe_layer_end_index` holds experts."""
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
    experts, chosen = read_experts(config, "moe_num_experts", 64, per_token=6)
    shared = config.integer("moe_num_shared_experts", 2, minimum=0, maximum=MAX_EXPERTS)
    narrow = config.dimension("moe_intermediate_size", 1536)
    correction: Piece = ("mlp.gate.moe_statics.e_score_correction_bias", (1, experts), "router")
    beside = gated_mlp(hidden, shared * narrow, bias=bias, name="mlp.shared_experts") if shared else []
    sparse = sparse_forward(hidden, narrow, experts, chosen, shared=shared, shared_pieces=[correction, *beside])
    dense = dense_forward(hidden, config.dimension("intermediate_size", 12288), bias=bias)
    note_prediction_layers(config)
    holding = _layers_with_experts(config, frame.num_layers)
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *layer_norms(hidden)],
        [sparse if index in holding else dense for index in range(frame.num_layers)],
        head=linear("lm_head", frame.vocab_size, hidden, "head", bias),
    )


def _layers_with_experts(config: Config, num_layers: int) -> frozenset[int]:
    """The end is part of the range; -1 means the last layer."""
    first = config.integer("moe_layer_start_index", 1, minimum=0)
    end = config.integer("moe_layer_end_index", -1, minimum=-1)
    interval = config.integer("moe_layer_interval", 1)
    last = num_layers - 1 if end == -1 else min(end, num_layers - 1)
    return frozenset(index for index in range(first, last + 1) if (index + 1) % interval == 0)
