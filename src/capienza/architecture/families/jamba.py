"""Jamba: one attention layer in a period of Mamba layers, and experts in every other layer."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import read_heads
from capienza.architecture.mixers import Mamba, time_step_rank
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import attention_pieces, fused_experts, gated_mlp, linear, norm, read_experts
from capienza.architecture.reading import Config


def build(config: Config) -> Architecture:
    """A layer attends when its index is at the offset of the period, and holds experts by a period of its own."""
    frame = read_frame(config, hidden_size=4096, num_hidden_layers=32, vocab_size=65536, max_position_embeddings=262144)
    hidden = frame.hidden_size
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8)
    mamba = Mamba(
        hidden=hidden,
        inner=config.integer("mamba_expand", 2) * hidden,
        state=config.integer("mamba_d_state", 16),
        rank=time_step_rank(config, "mamba_dt_rank", hidden),
        kernel=config.integer("mamba_d_conv", 4),
        bias=config.flag("mamba_proj_bias", default=False),
        convolution_bias=config.flag("mamba_conv_bias", default=True),
        inner_norms=True,
    ).mixer("mamba")
    attending = attention_pieces(heads, hidden)
    intermediate = config.dimension("intermediate_size", 14336)
    experts, chosen = read_experts(config.with_aliases(num_experts="num_local_experts"), "num_experts", 16, per_token=2)
    dense = Mlp(kind="dense", intermediate_size=intermediate)
    sparse = Mlp(kind="experts", intermediate_size=intermediate, num_experts=experts, num_experts_per_token=chosen)
    mixture = [
        *linear("feed_forward.router", experts, hidden, "router"),
        *fused_experts(experts, hidden, intermediate, name="feed_forward.experts"),
    ]
    norms = [*norm("input_layernorm", hidden), *norm("pre_ff_layernorm", hidden)]
    attends = _at_offset(config, "attn_layer", period=8, offset=4, layers=frame.num_layers)
    has_experts = _at_offset(config, "expert_layer", period=2, offset=1, layers=frame.num_layers)
    blocks = []
    for attention, mixed in zip(attends, has_experts, strict=True):
        is_sparse = mixed and experts > 1  # with a single expert the class builds an ordinary MLP
        forward = mixture if is_sparse else gated_mlp(hidden, intermediate, name="feed_forward")
        blocks.append(
            Block(
                attention=heads.attention() if attention else None,
                state=None if attention else mamba.state,
                mlp=sparse if is_sparse else dense,
                pieces=[*(attending if attention else mamba.pieces), *forward, *norms],
            )
        )
    return assemble(config, frame, blocks, after=norm("model.final_layernorm", hidden))


def _at_offset(config: Config, name: str, *, period: int, offset: int, layers: int) -> list[bool]:
    """Which layers stand at the offset of a period."""
    every = config.integer(f"{name}_period", period)
    at = config.integer(f"{name}_offset", offset, minimum=0)
    if at >= every:
        config.broken_rule(f"{name}_offset", at, f"{name}_offset < {name}_period == {every}")
    return [index % every == at for index in range(layers)]
