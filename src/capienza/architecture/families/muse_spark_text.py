"""The text side of Muse Spark: gated attention, and experts in a narrower stream; the head is never the embedding."""

from __future__ import annotations

import msgspec

from capienza.architecture.forward_parts import Forward, dense_forward, sparse_flags
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.layer_stack import assemble_stack
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.muse_attention import muse_attention_pieces, muse_attentions
from capienza.architecture.pieces import Piece, fused_experts, linear, norm, read_experts
from capienza.architecture.reading import Config

NORMS = ("input_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
GATES = ("post_attention_residual_gate", "post_feedforward_residual_gate")


def build(config: Config) -> Architecture:
    """Experts in all layers, unless `mlp_layer_types` says otherwise."""
    frame = read_frame(
        config, hidden_size=8192, num_hidden_layers=62, vocab_size=202_048, max_position_embeddings=1_048_576
    )
    frame = msgspec.structs.replace(frame, tied_head=False)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=128, num_key_value_heads=16, head_dim=64)
    gates: list[Piece] = [(f"{name}.gate", (hidden,), "other") for name in GATES]
    common = [
        *muse_attention_pieces(config, heads, hidden),
        *(piece for name in NORMS for piece in norm(name, hidden)),
        *gates,
    ]
    forwards = {
        False: dense_forward(hidden, config.dimension("intermediate_size", 16384)),
        True: _experts(config, hidden),
    }
    flags = sparse_flags(config, frame.num_layers, lambda _: True)
    attentions = muse_attentions(config, heads, frame.num_layers)
    return assemble_stack(config, frame, attentions, common, [forwards[flag] for flag in flags])


def _experts(config: Config, hidden: int) -> Forward:
    """Experts between two projections, with a norm before and one after."""
    experts, chosen = read_experts(config, "num_local_experts", 256, per_token=8)
    width = config.dimension("moe_intermediate_size", 4096)
    narrow = config.dimension("moe_hidden_size", 4096)
    pieces = [
        *linear("mlp.gate", experts, hidden, "router"),
        *linear("mlp.pre_expert_proj", narrow, hidden, "mlp"),
        *norm("mlp.pre_expert_norm", narrow),
        *fused_experts(experts, narrow, width),
        *norm("mlp.experts.post_expert_norm", narrow),
        *linear("mlp.post_expert_proj", hidden, narrow, "mlp"),
    ]
    mlp = Mlp(kind="experts", intermediate_size=width, num_experts=experts, num_experts_per_token=chosen)
    return Forward(mlp, pieces, [("mlp.gate.e_score_correction_bias", (experts,), "router")])
