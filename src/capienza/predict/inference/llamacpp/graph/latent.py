"""Multi-head latent attention of DeepSeek V2 and V3.

Legend: latent the shared vector of a token; nope and rope the parts of a head without and with positions. With split
matrices the keys' one is absorbed into the queries, and every head reads the same latent cache; without them keys and
values are made for every head.
Source: models/deepseek2.cpp of llama.cpp at 0c1e57098.
"""

from __future__ import annotations

from capienza.architecture.model import Layer
from capienza.predict.inference.llamacpp.graph.attention import attend
from capienza.predict.inference.llamacpp.graph.build import Build
from capienza.predict.inference.llamacpp.graph.node import Node
from capienza.predict.inference.llamacpp.graph.operations import (
    concat,
    contiguous,
    permute_middle,
    product,
    reshape,
    view,
)


def latent_attention(build: Build, layer: Layer, cur: Node) -> Node:
    """The batch through latent attention, the output matrix included."""
    number, start, tokens = build.model.number, f"blk.{layer.index}.", build.step.tokens
    heads, rope, rank = number("attention.head_count"), number("rope.dimension_count"), number("attention.kv_lora_rank")
    key = number("attention.key_length_mla") or number("attention.key_length")
    nope = key - rope
    q = reshape(_queries(build, start, layer.index, cur), key, heads, tokens)
    latent = product(build.needed(f"{start}attn_kv_a_mqa.weight"), cur)
    compressed = view(latent, (rank, tokens), (latent.nb[1],))
    k_rope = build.rope(view(latent, (rope, 1, tokens), (latent.nb[1], latent.nb[1])), layer.index)
    compressed = build.norm(compressed, f"{start}attn_kv_a_norm", layer.index)
    absorb = build.weight(f"{start}attn_k_b.weight")
    if absorb is not None:
        q_rope = build.rope(view(q, (rope, heads, tokens), q.nb[1:3]), layer.index)
        q_nope = permute_middle(view(q, (nope, heads, tokens), q.nb[1:3]))
        q = concat(permute_middle(product(absorb, q_nope)), q_rope)
        v = reshape(compressed, rank, 1, tokens)
        k = concat(v, k_rope)
        out = attend(build, layer, q, k, v, decompress=build.needed(f"{start}attn_v_b.weight"))
    else:
        q = build.rope(q, layer.index)
        k, v = _decompressed(build, start, compressed, k_rope, heads, nope)
        out = attend(build, layer, q, k, v)
    return build.linear(out, f"{start}attn_output")


def _queries(build: Build, start: str, index: int, cur: Node) -> Node:
    """Queries, through a low rank where the model has one."""
    plain = build.weight(f"{start}attn_q.weight")
    if plain is not None:
        return product(plain, cur)
    low = build.norm(product(build.needed(f"{start}attn_q_a.weight"), cur), f"{start}attn_q_a_norm", index)
    return product(build.needed(f"{start}attn_q_b.weight"), low)


def _decompressed(build: Build, start: str, compressed: Node, k_rope: Node, heads: int, nope: int) -> tuple[Node, Node]:
    """Keys and values of every head."""
    tokens, rope = build.step.tokens, k_rope.ne[0]
    both = product(build.needed(f"{start}attn_kv_b.weight"), compressed)
    head = both.ne[0] // heads
    k_nope = view(both, (nope, heads, tokens), (head * 4, head * heads * 4))
    v = contiguous(view(both, (head - nope, heads, tokens), (head * 4, head * heads * 4)))
    repeated = Node("repeat", (rope, heads, tokens, 1), "fp32", (k_rope,))
    return concat(k_nope, repeated), v
