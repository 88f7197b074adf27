"""Mixtral: Mistral's attention, all layers with fused experts."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, fused_experts, layer_norms, linear, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; a window only where it is stated."""
    config = config.with_aliases(num_local_experts="num_experts")
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    intermediate = config.dimension("intermediate_size", 14336)
    experts, chosen = read_experts(config, "num_local_experts", 8, per_token=2)
    block = Block(
        attention=uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window")),
        mlp=Mlp(kind="experts", intermediate_size=intermediate, num_experts=experts, num_experts_per_token=chosen),
        pieces=[
            *attention_pieces(heads, hidden),
            *linear("mlp.gate", experts, hidden, "router"),
            *fused_experts(experts, hidden, intermediate),
            *layer_norms(hidden),
        ],
    )
    return assemble(config, frame, [block] * frame.num_layers)
