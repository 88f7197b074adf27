"""Latent attention (MLA) with experts, as in DeepSeek V2 and V3.

Legend: rank width of a compressed vector; rope the part of each key that carries the position, shared by all
heads; nope the part that does not. The cache of one token is one latent of `kv_lora_rank` and one rope part.
Source: the attention modules of transformers 5.24, which keep these two and expand them on use.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.model import Architecture, Attention, Mlp
from capienza.architecture.pieces import Piece, fused_experts, gated_mlp, layer_norms, linear, norm
from capienza.architecture.reading import MAX_EXPERTS, Config
from capienza.errors import template

PREDICTION_LAYERS = template(
    "architecture.prediction-layers",
    "{count} multi-token prediction layer(s) are not counted: the weights are at least this, and the files may hold"
    " more",
    "An engine that drafts with them needs their weights and their cache on top.",
)


class Latent(msgspec.Struct, frozen=True):
    """The sizes of latent attention; `query_rank` None means that queries are not compressed."""

    num_heads: int
    num_key_value_heads: int
    query_rank: int | None
    rank: int
    nope: int
    rope: int
    value: int

    @property
    def attention(self) -> Attention:
        """The attention of one layer."""
        return Attention(
            kind="latent",
            num_attention_heads=self.num_heads,
            num_key_value_heads=self.num_key_value_heads,
            key_head_dim=self.nope + self.rope,
            value_head_dim=self.value,
            latent_width=self.rank + self.rope,
        )

    def pieces(self, hidden: int, bias: bool) -> list[Piece]:
        """The projections; only those from and to the residual stream may have a bias."""
        key = self.num_heads * (self.nope + self.rope)
        if self.query_rank is None:
            query = linear("self_attn.q_proj", key, hidden, "attention")
        else:
            query = [
                *linear("self_attn.q_a_proj", self.query_rank, hidden, "attention", bias),
                *norm("self_attn.q_a_layernorm", self.query_rank),
                *linear("self_attn.q_b_proj", key, self.query_rank, "attention"),
            ]
        return [
            *query,
            *linear("self_attn.kv_a_proj_with_mqa", self.rank + self.rope, hidden, "attention", bias),
            *norm("self_attn.kv_a_layernorm", self.rank),
            *linear("self_attn.kv_b_proj", self.num_heads * (self.nope + self.value), self.rank, "attention"),
            *linear("self_attn.o_proj", hidden, self.num_heads * self.value, "attention", bias),
        ]


def read_latent(config: Config, *, num_attention_heads: int) -> Latent:
    """The sizes of latent attention; the defaults are those of both config classes."""
    heads = config.dimension("num_attention_heads", num_attention_heads)
    kv_heads = config.optional("num_key_value_heads") or heads
    if heads % kv_heads:
        config.contradiction("num_key_value_heads", kv_heads, f"a divisor of the {heads} attention heads")
    return Latent(
        num_heads=heads,
        num_key_value_heads=kv_heads,
        query_rank=config.optional("q_lora_rank", 1536),
        rank=config.dimension("kv_lora_rank", 512),
        nope=config.integer("qk_nope_head_dim", 128),
        rope=config.integer("qk_rope_head_dim", 64),
        value=config.integer("v_head_dim", 128),
    )


def build_latent(
    config: Config,
    frame: Frame,
    latent: Latent,
    *,
    intermediate_size: int,
    moe_intermediate_size: int,
    n_routed_experts: int,
    n_shared_experts: int,
    num_experts_per_tok: int | None,
    first_k_dense_replace: int,
    mlp_bias: bool = False,
    correction: bool = False,
) -> Architecture:
    """A model of latent attention whose later layers hold experts; the numbers are the class defaults.

    `correction` adds the buffer that evens out the load of the experts.
    """
    hidden, attention = frame.hidden_size, latent.attention
    dense = config.dimension("intermediate_size", intermediate_size)
    sparse = config.dimension("moe_intermediate_size", moe_intermediate_size)
    experts = config.dimension("n_routed_experts", n_routed_experts, maximum=MAX_EXPERTS)
    chosen = config.integer("num_experts_per_tok", num_experts_per_tok, maximum=MAX_EXPERTS)
    if chosen > experts:
        config.contradiction("num_experts_per_tok", chosen, f"at most the {experts} experts")
    shared = config.integer("n_shared_experts", n_shared_experts, minimum=0, maximum=MAX_EXPERTS)
    frequency = config.optional("moe_layer_freq")
    if frequency not in (None, 1):
        direction = "with dense layers among the experts the weights would come out too large"
        config.not_understood("moe_layer_freq", frequency, "1", direction)
    extra = config.optional("num_nextn_predict_layers", minimum=0)
    if extra:
        config.notes.append(PREDICTION_LAYERS(count=extra))
    common = [*latent.pieces(hidden, config.flag("attention_bias", False)), *layer_norms(hidden)]
    first = Block(
        attention=attention,
        mlp=Mlp(kind="dense", intermediate_size=dense),
        pieces=[*common, *gated_mlp(hidden, dense, bias=mlp_bias)],
    )
    later = Block(
        attention=attention,
        mlp=Mlp(
            kind="experts",
            intermediate_size=sparse,
            num_experts=experts,
            num_experts_per_token=chosen,
            num_shared_experts=shared,
        ),
        pieces=[
            *common,
            *linear("mlp.gate", experts, hidden, "router"),
            *fused_experts(experts, hidden, sparse),
            *gated_mlp(hidden, shared * sparse, bias=mlp_bias, name="mlp.shared_experts"),
        ],
        buffers=[("mlp.gate.e_score_correction_bias", (experts,), "router")] if correction else [],
    )
    count = min(config.integer("first_k_dense_replace", first_k_dense_replace, minimum=0), frame.num_layers)
    return assemble(config, frame, [first] * count + [later] * (frame.num_layers - count))
