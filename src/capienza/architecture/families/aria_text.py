"""Aria, text side: Llama's attention beside experts stored [in, out] and shared ones in one MLP."""

from __future__ import annotations

from capienza.architecture.forward_parts import Forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import full_attention, read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, layer_norms, linear, read_experts
from capienza.architecture.reading import MAX_EXPERTS, Config


def build(config: Config) -> Architecture:
    """All layers alike, with full attention."""
    config = config.with_aliases(num_experts_per_tok="moe_topk")
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=32000, max_position_embeddings=2048)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32)
    bias, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    width = config.dimension("intermediate_size", 4096)
    experts, chosen = read_experts(config, "moe_num_experts", 8, per_token=2)
    shared = config.integer("moe_num_shared_experts", 2, minimum=0, maximum=MAX_EXPERTS)
    routed: list[Piece] = [
        ("mlp.experts.gate_up_proj", (experts, hidden, 2 * width), "expert"),
        ("mlp.experts.down_proj", (experts, width, hidden), "expert"),
    ]
    mlp = Mlp(
        kind="experts",
        intermediate_size=width,
        num_experts=experts,
        num_experts_per_token=chosen,
        num_shared_experts=shared,
    )
    forward = [
        *linear("mlp.router", experts, hidden, "router"),
        *routed,
        *gated_mlp(hidden, shared * width, bias=mlp_bias, name="mlp.shared_experts"),
    ]
    return assemble_stack(
        config,
        frame,
        [full_attention(config, heads, frame.num_layers)] * frame.num_layers,
        [*attention_pieces(heads, hidden, bias=bias, output_bias=bias), *layer_norms(hidden)],
        [Forward(mlp, forward)] * frame.num_layers,
        transposed={name for name, _, _ in routed},
    )
