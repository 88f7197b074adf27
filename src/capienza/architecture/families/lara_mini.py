"""Lara Mini: gated delta, windowed and full layers in a pattern of five, experts beside a shared one."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import layer_block, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import FULL_OR_SLIDING, attentions, layer_types, read_heads
from capienza.architecture.mixers import read_gated_delta
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import attention_pieces, gated_mlp, read_experts
from capienza.architecture.reading import Config

LINEAR = "linear_attention"
PATTERN = (LINEAR, "sliding_attention", LINEAR, "full_attention", "sliding_attention")


def build(config: Config) -> Architecture:
    """The pattern of five repeats, unless `layer_types` says otherwise."""
    frame = read_frame(
        config,
        hidden_size=1024,
        num_hidden_layers=34,
        vocab_size=151_936,
        max_position_embeddings=131_072,
        tied=True,
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, num_key_value_heads=4, head_dim=128)
    bias = config.flag("attention_bias", default=False)
    attending = attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True)
    mixer = read_gated_delta(config, hidden, key_heads=8, value_heads=16).mixer("linear_attn", fused=False)
    experts, chosen = read_experts(config, "num_experts", 128, per_token=4)
    shared = config.dimension("shared_expert_intermediate_size", 512)
    sparse = sparse_forward(
        hidden,
        config.dimension("moe_intermediate_size", 512),
        experts,
        chosen,
        shared=1,
        shared_pieces=gated_mlp(hidden, shared, name="mlp.shared_expert"),
    )
    types = layer_types(
        config, frame.num_layers, lambda index: PATTERN[index % len(PATTERN)], {LINEAR, *FULL_OR_SLIDING}
    )
    window = config.optional("sliding_window", 512)
    blocks = [
        layer_block(hidden, sparse, mixer.pieces, state=mixer.state)
        if kind == LINEAR
        else layer_block(hidden, sparse, attending, attention=attentions(config, heads, [kind], window)[0])
        for kind in types
    ]
    return assemble(config, frame, blocks)
