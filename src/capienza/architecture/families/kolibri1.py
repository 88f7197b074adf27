"""Kolibri 1: windows in four layers of five, experts beside a shared one, norms on both sides."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import CORRECTION, layer_block, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import attentions, layer_types, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, gated_mlp, norm, read_experts
from capienza.architecture.reading import Config

PERIOD = 5
NORMS = ("input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm")


def build(config: Config) -> Architecture:
    """Every fifth layer is full, unless `layer_types` says otherwise."""
    config = config.with_aliases(num_experts="num_local_experts")
    frame = read_frame(
        config, hidden_size=2560, num_hidden_layers=50, vocab_size=128_000, max_position_embeddings=262_144
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=48, num_key_value_heads=4, head_dim=128)
    types = layer_types(
        config, frame.num_layers, lambda index: "sliding_attention" if (index + 1) % PERIOD else "full_attention"
    )
    layers = attentions(config, heads, types, config.optional("sliding_window", 513))
    experts, chosen = read_experts(config, "num_experts", 384, per_token=6)
    shared = config.dimension("shared_expert_intermediate_size", 512)
    sparse = sparse_forward(
        hidden,
        config.dimension("moe_intermediate_size", 512),
        experts,
        chosen,
        shared=1,
        shared_pieces=gated_mlp(hidden, shared, name="mlp.shared_experts"),
        correction=CORRECTION,
    )
    mixing = attention_pieces(heads, hidden, head_norm=True)
    norms = [piece for name in NORMS for piece in norm(name, hidden)]
    return assemble(
        config, frame, [layer_block(hidden, sparse, mixing, attention=attention, norms=norms) for attention in layers]
    )
