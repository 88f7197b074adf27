"""Laguna: heads, windows and experts layer by layer, a gate on the output of attention."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.forward_parts import dense_forward, layer_block, sparse_flags, sparse_forward
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, attentions, layer_types, read_heads
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, attention_pieces, gated_mlp, linear, read_experts
from capienza.architecture.reading import Config
from capienza.errors import phrase

GATES = {"per-head": True, "per-element": False}


def build(config: Config) -> Architecture:
    """All layers full and, but for the first, with experts, unless the config lists otherwise."""
    frame = read_frame(
        config, hidden_size=2048, num_hidden_layers=40, vocab_size=100_352, max_position_embeddings=131_072
    )
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=48, num_key_value_heads=8, head_dim=128)
    counts = config.integers("num_attention_heads_per_layer", minimum=1)
    if counts is None:
        counts = (heads.num_attention_heads,) * frame.num_layers
    if len(counts) != frame.num_layers:
        config.broken_rule(
            "num_attention_heads_per_layer", counts, f"len(num_attention_heads_per_layer) == {frame.num_layers}"
        )
    types = layer_types(config, frame.num_layers, lambda _: "full_attention")
    window = config.optional("sliding_window", 512)
    bias, per_head = config.flag("attention_bias", default=False), _gate_per_head(config)
    experts, chosen = read_experts(config, "num_experts", 256, per_token=8)
    shared = config.dimension("shared_expert_intermediate_size", 512)
    correction: list[Piece] = [("mlp.gate.e_score_correction_bias", (experts,), "router")]
    sparse = sparse_forward(
        hidden,
        config.dimension("moe_intermediate_size", 512),
        experts,
        chosen,
        shared=1,
        shared_pieces=[*correction, *gated_mlp(hidden, shared, name="mlp.shared_experts")],
    )
    dense = dense_forward(hidden, config.dimension("intermediate_size", 8192))
    flags = sparse_flags(config, frame.num_layers, lambda index: index >= 1)
    blocks = []
    for index, (count, kind, flag) in enumerate(zip(counts, types, flags, strict=True)):
        if count % heads.num_key_value_heads:
            key = f"num_attention_heads_per_layer[{index}]"
            config.broken_rule(key, count, f"{key} % {heads.num_key_value_heads} == 0")
        own = Heads(count, heads.num_key_value_heads, heads.head_dim)
        gates = count if per_head else own.query_width
        mixing = [
            *attention_pieces(own, hidden, bias=bias, output_bias=bias, head_norm=True),
            *linear("self_attn.g_proj", gates, hidden, "attention"),
        ]
        attention = attentions(config, own, [kind], window)[0]
        blocks.append(layer_block(hidden, sparse if flag else dense, mixing, attention=attention))
    return assemble(config, frame, blocks)


def _gate_per_head(config: Config) -> bool:
    """One gate for each head, or for each of its elements."""
    value = config.raw("gating")
    if value is None or isinstance(value, bool):
        return value is not False
    if not isinstance(value, str):
        config.wrong_type("gating", value, ", ".join(["true", "false", *GATES]))
    if value not in GATES:
        direction = phrase("the weights of another gate may be more, or fewer")
        config.not_understood("gating", value, ", ".join(["true", "false", *GATES]), direction)
    return GATES[value]
