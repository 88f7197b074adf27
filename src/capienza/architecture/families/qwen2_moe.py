"""Qwen 1.5 and 2 mixtures: fused experts, one wide shared expert with a gate."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame, read_frame
from capienza.architecture.heads import Heads, attentions, layer_types, read_heads
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import (
    attention_pieces,
    fused_experts,
    gated_mlp,
    layer_norms,
    linear,
    read_experts,
    sparse_layers,
)
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """Experts in the layers that `sparse_layers` gives; a plain MLP in the others."""
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=24, vocab_size=151_936, max_position_embeddings=32768
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, num_key_value_heads=16)
    experts, chosen = read_experts(config, "num_experts", 60, per_token=4, minimum=0)
    dense, sparse = config.dimension("intermediate_size", 5632), config.dimension("moe_intermediate_size", 1408)
    shared = config.dimension("shared_expert_intermediate_size", 5632)
    bias = config.flag("qkv_bias", True)
    common = [*attention_pieces(heads, hidden, bias=bias), *layer_norms(hidden)]
    mixture = [
        *linear("mlp.gate", experts, hidden, "router"),
        *fused_experts(experts, hidden, sparse),
        *gated_mlp(hidden, shared, name="mlp.shared_expert"),
        *linear("mlp.shared_expert_gate", 1, hidden, "router"),
    ]
    kinds = {
        True: Mlp(
            kind="experts",
            intermediate_size=sparse,
            num_experts=experts,
            num_experts_per_token=chosen,
            num_shared_experts=1,
        ),
        False: Mlp(kind="dense", intermediate_size=dense),
    }
    pieces = {True: [*common, *mixture], False: [*common, *gated_mlp(hidden, dense)]}
    layers = zip(_attentions(config, heads, frame), sparse_layers(config, frame.num_layers, experts), strict=True)
    blocks = [
        Block(attention=attention, mlp=kinds[is_sparse], pieces=pieces[is_sparse]) for attention, is_sparse in layers
    ]
    return assemble(config, frame, blocks)


def _attentions(config: Config, heads: Heads, frame: Frame) -> list[Attention]:
    """With a window, every other layer below `max_window_layers` slides."""
    used = config.flag("use_sliding_window", False)
    window = config.optional("sliding_window", 4096) if used else None
    limit = config.integer("max_window_layers", 28, minimum=0) if used else 0
    types = layer_types(
        config,
        frame.num_layers,
        lambda index: "sliding_attention" if index % 2 == 0 and index < limit else "full_attention",
    )
    return attentions(config, heads, types, window)
