"""What Qwen3-Next and Qwen3.5 share: gated delta and gated attention layers in turn, dense or with experts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.architecture.assembly import Block
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads, layer_types, read_heads
from capienza.architecture.mixers import read_gated_delta
from capienza.architecture.model import Mlp
from capienza.architecture.pieces import (
    Piece,
    attention_pieces,
    fused_experts,
    gated_mlp,
    layer_norms,
    linear,
    read_experts,
)
from capienza.architecture.reading import Config

LAYER_TYPES = frozenset({"full_attention", "linear_attention"})


class ForwardPart(msgspec.Struct, frozen=True):
    """The feed-forward part of a layer and its tensors."""

    mlp: Mlp
    pieces: list[Piece]


def dense_part(config: Config, hidden: int, *, intermediate_size: int) -> ForwardPart:
    """A gated MLP; the argument is the class default."""
    intermediate = config.dimension("intermediate_size", intermediate_size)
    return ForwardPart(Mlp(kind="dense", intermediate_size=intermediate), gated_mlp(hidden, intermediate))


def mixture_part(config: Config, hidden: int, *, num_experts: int, per_token: int) -> ForwardPart:
    """Experts beside one shared expert with a gate of its own; the arguments are the class defaults."""
    experts, chosen = read_experts(config, "num_experts", num_experts, per_token=per_token)
    width = config.dimension("moe_intermediate_size", 512)
    shared = config.dimension("shared_expert_intermediate_size", 512)
    mlp = Mlp(
        kind="experts",
        intermediate_size=width,
        num_experts=experts,
        num_experts_per_token=chosen,
        num_shared_experts=1,
    )
    pieces = [
        *linear("mlp.gate", experts, hidden, "router"),
        *fused_experts(experts, hidden, width),
        *gated_mlp(hidden, shared, name="mlp.shared_expert"),
        *linear("mlp.shared_expert_gate", 1, hidden, "router"),
    ]
    return ForwardPart(mlp, pieces)


def gated_attention(config: Config, heads: Heads, hidden: int) -> list[Piece]:
    """Attention whose query projection also makes a gate, so it is twice as wide; Q and K are normalised."""
    bias = config.flag("attention_bias", default=False)
    pieces = attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True)
    query = linear("self_attn.q_proj", 2 * heads.query_width, hidden, "attention", bias)
    return [*query, *pieces[len(query) :]]


def hybrid_blocks(
    config: Config, frame: Frame, parts: Sequence[ForwardPart | None], *, num_key_value_heads: int, fused: bool
) -> list[Block]:
    """Every layer with its feed-forward part; without `layer_types`, one in `full_attention_interval` attends."""
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=16, num_key_value_heads=num_key_value_heads, head_dim=256)
    interval = config.optional("full_attention_interval") or 4
    types = layer_types(
        config,
        frame.num_layers,
        lambda index: "linear_attention" if (index + 1) % interval else "full_attention",
        LAYER_TYPES,
    )
    delta = read_gated_delta(config, hidden).mixer("linear_attn", fused=fused)
    attending = gated_attention(config, heads, hidden)
    blocks = []
    for kind, part in zip(types, parts, strict=True):
        attends = kind == "full_attention"
        pieces = [*(attending if attends else delta.pieces), *(part.pieces if part else []), *layer_norms(hidden)]
        blocks.append(
            Block(
                attention=heads.attention() if attends else None,
                state=None if attends else delta.state,
                mlp=part.mlp if part else None,
                pieces=pieces,
            )
        )
    return blocks
