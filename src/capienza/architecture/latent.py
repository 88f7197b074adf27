"""Latent attention (MLA), as in DeepSeek V2 and V3.

Legend: rank width of a compressed vector; rope the part of each key that carries the position, shared by all
heads; nope the part that does not. The cache of one token is one latent of `kv_lora_rank` and one rope part.
Source: the attention modules of transformers 5.24, which keep these two and expand them on use.
"""

from __future__ import annotations

import msgspec

from capienza.architecture.model import Attention
from capienza.architecture.pieces import Piece, linear, norm
from capienza.architecture.reading import Config


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
        return self.indexed(0)

    def indexed(self, index_width: int) -> Attention:
        """The attention of one layer that keeps the keys of an indexer beside the latent."""
        return Attention(
            kind="latent",
            num_attention_heads=self.num_heads,
            num_key_value_heads=self.num_key_value_heads,
            key_head_dim=self.nope + self.rope,
            value_head_dim=self.value,
            latent_width=self.rank + self.rope,
            index_width=index_width,
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


def read_latent(
    config: Config,
    *,
    num_attention_heads: int,
    query_rank: int | None = 1536,
    rank: int = 512,
    nope: int = 128,
    rope: int = 64,
    value: int = 128,
    compressed: bool = False,
) -> Latent:
    """The sizes of latent attention; the arguments are the class defaults, those of DeepSeek's where not given.

    With `compressed` the class knows compressed queries only.
    """
    heads = config.dimension("num_attention_heads", num_attention_heads)
    kv_heads = config.optional("num_key_value_heads") or heads
    if heads % kv_heads:
        config.broken_rule("num_key_value_heads", kv_heads, f"{heads} % num_key_value_heads == 0")
    stated = config.optional("q_lora_rank", query_rank)
    if compressed and stated is None:
        config.broken_rule("q_lora_rank", stated, "q_lora_rank >= 1")
    return Latent(
        num_heads=heads,
        num_key_value_heads=kv_heads,
        query_rank=stated,
        rank=config.dimension("kv_lora_rank", rank),
        nope=config.integer("qk_nope_head_dim", nope),
        rope=config.integer("qk_rope_head_dim", rope),
        value=config.integer("v_head_dim", value),
    )
