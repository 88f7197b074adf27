"""The mixtures of Qwen 3 and Qwen3-VL: a norm over each head of Q and K, fused experts, none shared."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import Heads
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


def assemble_qwen_mixture(
    config: Config,
    frame: Frame,
    heads: Heads,
    attention: Attention,
    *,
    intermediate_size: int,
    moe_intermediate_size: int,
    num_experts: int,
    num_experts_per_tok: int,
) -> Architecture:
    """Experts in the layers that `sparse_layers` gives, a plain MLP in the others; the numbers are class defaults."""
    hidden = frame.hidden_size
    experts, chosen = read_experts(config, "num_experts", num_experts, per_token=num_experts_per_tok, minimum=0)
    wide = config.dimension("intermediate_size", intermediate_size)
    narrow = config.dimension("moe_intermediate_size", moe_intermediate_size)
    bias = config.flag("attention_bias", default=False)
    common = [
        *attention_pieces(heads, hidden, bias=bias, output_bias=bias, head_norm=True),
        *layer_norms(hidden),
    ]
    dense = Block(
        attention=attention,
        mlp=Mlp(kind="dense", intermediate_size=wide),
        pieces=[*common, *gated_mlp(hidden, wide)],
    )
    sparse = Block(
        attention=attention,
        mlp=Mlp(kind="experts", intermediate_size=narrow, num_experts=experts, num_experts_per_token=chosen),
        pieces=[
            *common,
            *fused_experts(experts, hidden, narrow),
            *linear("mlp.gate", experts, hidden, "router"),
        ],
    )
    kinds = sparse_layers(config, frame.num_layers, experts)
    return assemble(config, frame, [sparse if holds_experts else dense for holds_experts in kinds])
