"""Phi 3.5 MoE: fused experts, layer norms with biases."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads, uniform_attention
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, fused_experts, layer_norms, linear, norm, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """All layers alike; a window only where it is stated."""
    frame = read_frame(
        config, hidden_size=4096, num_hidden_layers=32, vocab_size=32064, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    intermediate = config.dimension("intermediate_size", 6400)
    experts, chosen = read_experts(config, "num_local_experts", 16, per_token=2)
    bias = config.flag("attention_bias", False)
    block = Block(
        attention=uniform_attention(config, heads, frame.num_layers, config.optional("sliding_window")),
        mlp=Mlp(kind="experts", intermediate_size=intermediate, num_experts=experts, num_experts_per_token=chosen),
        pieces=[
            *attention_pieces(heads, hidden, bias=bias, output_bias=bias),
            *linear("mlp.router", experts, hidden, "router"),
            *fused_experts(experts, hidden, intermediate),
            *layer_norms(hidden, bias=True),
        ],
    )
    return assemble(
        config,
        frame,
        [block] * frame.num_layers,
        after=norm("model.norm", hidden, bias=True),
        head=linear("lm_head", frame.vocab_size, hidden, "head", bias=config.flag("lm_head_bias", False)),
    )
