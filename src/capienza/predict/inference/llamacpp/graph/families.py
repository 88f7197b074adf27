"""How the blocks of each architecture are put together; one row for each name.

Legend: early rows: only the tokens that become logits go through the last block's feed-forward part.
Source of every row: the model's own file under models/ of llama.cpp at 0c1e57098.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from capienza.architecture.model import Layer
from capienza.predict.inference.llamacpp.graph.attention import attend, heads_of
from capienza.predict.inference.llamacpp.graph.build import Build, UnknownGraphError
from capienza.predict.inference.llamacpp.graph.forward import GATINGS, Mixture, dense, experts, shared_expert
from capienza.predict.inference.llamacpp.graph.latent import latent_attention
from capienza.predict.inference.llamacpp.graph.node import Node
from capienza.predict.inference.llamacpp.graph.operations import contiguous, reshape, same, take_rows, view
from capienza.predict.inference.llamacpp.graph.recurrent import gated_delta, mamba2, short_convolution
from capienza.predict.inference.llamacpp.rules import NEVER_MIXED

Mixer = Callable[[Build, Layer, Node], Node]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One architecture. `forward_norm` is the norm before the feed-forward part.

    `post_norms`: norms after attention and feed-forward. `scales_input`, `scales_queries`: extra factors.
    `scales_residual`: what is added to the residual, and the logits, are scaled first.
    `residual_first`: the residual is the first operand of the sums. `unrotated_every`: one block in so many has no
    positions. `late_rows`: all tokens go through all blocks, and rows are taken after the last one, with
    `rows_after_norm` after its norm. `keeps_hidden`: the last hidden state is an output of its own.
    """

    forward_norm: str = "ffn_norm"
    post_norms: tuple[str, ...] = ()
    scales_input: bool = False
    scales_queries: bool = False
    late_rows: bool = False
    rows_after_norm: bool = False
    keeps_hidden: bool = False
    residual_first: Literal["never", "after_forward", "always"] = "never"
    caps_logits: bool = False
    scales_residual: bool = False
    unrotated_every: int = 0
    mixture: Mixture = Mixture()
    mixture_from_keys: bool = False
    mixer: Literal["attention", "latent", "hybrid_delta", "hybrid_conv", "beside_mamba2"] = "attention"


SANDWICH = ("post_attention_norm", "post_ffw_norm")
PLAIN = Family()
FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("llama", "mistral3", "qwen2", "qwen3", "qwen3moe", "internlm2"), PLAIN),
    "qwen2moe": Family(mixture=Mixture(is_normed=False)),
    "smollm3": Family(unrotated_every=4),
    "seed_oss": Family(forward_norm="post_attention_norm"),
    "glm4moe": Family(forward_norm="post_attention_norm", mixture_from_keys=True),
    "phi3": Family(scales_queries=True, residual_first="after_forward"),
    **dict.fromkeys(("granite", "granitemoe"), Family(scales_residual=True)),
    "gemma2": Family(post_norms=SANDWICH, scales_input=True, scales_queries=True, caps_logits=True),
    "gemma3": Family(post_norms=SANDWICH, scales_input=True, scales_queries=True),
    "glm4": Family(post_norms=SANDWICH),
    "gpt-oss": Family(
        forward_norm="post_attention_norm",
        late_rows=True,
        keeps_hidden=True,
        mixture=Mixture(gating="softmax_weight", is_normed=False),
    ),
    "deepseek2": Family(mixer="latent", mixture_from_keys=True),
    "lfm2": Family(mixer="hybrid_conv", residual_first="always", mixture_from_keys=True),
    "falcon-h1": Family(mixer="beside_mamba2"),
    **dict.fromkeys(
        ("qwen35", "qwen35moe"),
        Family(
            mixer="hybrid_delta",
            forward_norm="post_attention_norm",
            late_rows=True,
            rows_after_norm=True,
            keeps_hidden=True,
        ),
    ),
}


def build_graph(build: Build, family: Family, layers: tuple[Layer, ...]) -> None:
    """The whole graph of one batch, over these layers."""
    cur = _embedded(build, family)
    for layer in layers:
        is_last = layer is layers[-1]
        cur = _block(build, family, layer, cur, takes_rows=is_last and not family.late_rows)
    _head(build, family, cur)


def _embedded(build: Build, family: Family) -> Node:
    """Tokens as vectors; the graph also holds a place for vectors given instead of tokens."""
    tokens, width = build.step.tokens, build.model.hidden
    numbers = build.input("tokens", tokens, kind="int32")
    cur = take_rows(build.needed("token_embd.weight"), numbers)
    build.add(cur)
    if build.runtime.era.has_vector_input:
        build.add(build.input("vectors", width, tokens))
    if build.runtime.era.has_mixed_input and build.model.architecture not in NEVER_MIXED:
        build.add(_mixed(build, tokens, width))
    return same("scale", cur) if family.scales_input or build.model.keys.get("embedding_scale") else cur


def _mixed(build: Build, tokens: int, width: int) -> Node:
    """The place of a batch that gives some tokens as numbers and others as vectors. Nobody reads it, so it stays."""
    rows = take_rows(build.needed("token_embd.weight"), build.input("mixed_tokens", tokens, kind="int32"))
    vectors = build.input("mixed_vectors", width, tokens)
    copy = Node("dup", vectors.ne, vectors.kind, (vectors,))
    slots = build.input("mixed_slots", tokens, kind="int64")
    return Node("set_rows", copy.ne, copy.kind, (rows, slots, copy), view=copy, nb=copy.nb)


def _block(build: Build, family: Family, layer: Layer, x: Node, *, takes_rows: bool) -> Node:
    index, start = layer.index, f"blk.{layer.index}."
    cur = build.norm(x, f"{start}attn_norm", index)
    if family.mixer == "beside_mamba2":
        attended = attention(build, family, layer, cur)
        cur = same("add", attended, mamba2(build, layer, build.norm(x, f"{start}attn_norm", index)))
        residual = same("add", cur, x)
        if takes_rows:
            residual = _rows(build, residual)
    else:
        cur = _mix(build, family, layer, cur)
        if takes_rows:
            cur, x = _rows(build, cur), _rows(build, x)
        if family.post_norms:
            cur = build.norm(cur, f"{start}{family.post_norms[0]}", index)
        if family.scales_residual:
            cur = same("scale", cur)
        residual = same("add", x, cur) if family.residual_first == "always" else same("add", cur, x)
    cur = build.norm(residual, f"{start}{family.forward_norm}", index)
    cur = _forward(build, family, start, cur)
    if family.post_norms:
        is_gemma = family.scales_input
        cur = build.norm(cur, f"{start}{family.post_norms[1]}", None if is_gemma else index)
    if family.scales_residual:
        cur = same("scale", cur)
    return same("add", residual, cur) if family.residual_first != "never" else same("add", cur, residual)


def _rows(build: Build, x: Node) -> Node:
    """The tokens that become logits."""
    return take_rows(x, build.input("output_rows", build.step.outputs, kind="int32"))


def _mix(build: Build, family: Family, layer: Layer, cur: Node) -> Node:
    """What mixes tokens in this block."""
    if family.mixer == "latent":
        return latent_attention(build, layer, cur)
    if family.mixer == "hybrid_conv" and layer.attention is None:
        return short_convolution(build, layer, cur)
    if family.mixer == "hybrid_delta":
        build.add(cur)
        return gated_delta(build, layer, cur) if layer.attention is None else _gated_attention(build, layer, cur)
    return attention(build, family, layer, cur)


def attention(build: Build, family: Family, layer: Layer, cur: Node) -> Node:
    """Attention with positions, the output matrix included."""
    index, start = layer.index, f"blk.{layer.index}."
    if layer.attention is None or (layer.state is not None and family.mixer == "attention"):
        raise UnknownGraphError(start)
    q, k, v = heads_of(build, layer.attention, cur, start)
    if build.weight(f"{start}attn_q_norm.weight") is not None:
        q, k = build.norm(q, f"{start}attn_q_norm", index), build.norm(k, f"{start}attn_k_norm", index)
    if not family.unrotated_every or (index + 1) % family.unrotated_every:
        q, k = build.rope(q, index), build.rope(k, index)
    if build.model.keys.get("attention.temperature_scale"):
        q = same("mul", q, build.input("query_scales", 1, 1, build.step.tokens))
    if family.scales_queries:
        q = same("scale", q)
    return build.linear(attend(build, layer, q, k, v), f"{start}attn_output")


def _gated_attention(build: Build, layer: Layer, cur: Node) -> Node:
    """Attention of Qwen3.5: queries come with a gate for the answer."""
    index, start, tokens = layer.index, f"blk.{layer.index}.", build.step.tokens
    if layer.attention is None:
        raise UnknownGraphError(start)
    head, heads = layer.attention.key_head_dim, layer.attention.num_attention_heads
    both, k, v = (build.linear(cur, f"{start}attn_{letter}") for letter in "qkv")
    steps = (2 * head * 4, 2 * head * heads * 4)
    q = build.norm(view(both, (head, heads, tokens), steps), f"{start}attn_q_norm", index)
    kv_heads = layer.attention.num_key_value_heads
    k = build.norm(reshape(k, head, kv_heads, tokens), f"{start}attn_k_norm", index)
    gate = contiguous(view(both, (head, heads, tokens), steps), (head * heads, tokens, 1, 1))
    v = reshape(v, layer.attention.value_head_dim, kv_heads, tokens)
    answer = attend(build, layer, build.rope(q, index), build.rope(k, index), v)
    return build.linear(same("mul", answer, same("unary", gate)), f"{start}attn_output")


def _forward(build: Build, family: Family, start: str, cur: Node) -> Node:
    """The feed-forward part, dense or with experts."""
    if build.weight(f"{start}ffn_gate_inp.weight") is None:
        return dense(build, cur, start)
    answer = experts(build, cur, start, _mixture(build, family))
    shared = shared_expert(build, cur, start)
    return answer if shared is None else same("add", answer, shared)


def _mixture(build: Build, family: Family) -> Mixture:
    """How the experts of this model are weighed."""
    keys = build.model.keys
    scale = keys.get("expert_weights_scale", 0.0)
    is_scaled = isinstance(scale, int | float) and scale not in (0, 1)
    if not family.mixture_from_keys:
        return msgspec.structs.replace(family.mixture, is_scaled=is_scaled)
    normed = keys.get("expert_weights_norm", False)
    return Mixture(
        gating=GATINGS.get(build.model.number("expert_gating_func", 1), "softmax"),
        is_normed=normed is True or str(normed).lower() == "true",
        is_scaled=is_scaled,
    )


def _head(build: Build, family: Family, cur: Node) -> None:
    """Norm and logits."""
    if family.keeps_hidden and not family.rows_after_norm:
        cur.is_output = True
    if family.late_rows and not family.rows_after_norm:
        cur = _rows(build, cur)
    norm = "token_embd_norm" if build.model.architecture.startswith("lfm2") else "output_norm"
    cur = build.norm(cur, norm, None)
    cur.is_output = True
    if family.rows_after_norm:
        cur = _rows(build, cur)
        cur.is_output = True
    logits = Node("mul_mat", (build.head.ne[1], cur.ne[1], 1, 1), "fp32", (build.head, cur))
    if family.scales_residual:
        logits = same("scale", logits)
    if family.caps_logits or "final_logit_softcapping" in build.model.keys:
        logits = same("scale", same("unary", same("scale", logits)))
    logits.is_output = True
    build.add(logits)
