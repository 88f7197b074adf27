"""The feed-forward part of a block: dense, or a mixture of experts.

Legend: x the batch, [embedding, tokens]; k experts used for each token.
Source: `build_ffn`, `build_moe_ffn` (llama-graph.cpp of llama.cpp at 0c1e57098).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.predict.inference.llamacpp.graph.build import Build
from capienza.predict.inference.llamacpp.graph.node import Node
from capienza.predict.inference.llamacpp.graph.operations import (
    best,
    contiguous,
    expert_product,
    gated,
    product,
    reshape,
    row_sums,
    same,
    take_rows,
    view,
)

Gating = Literal["softmax", "sigmoid", "softmax_weight"]
GATINGS: dict[int, Gating] = {1: "softmax", 2: "sigmoid", 3: "softmax_weight"}


class Mixture(msgspec.Struct, frozen=True, kw_only=True):
    """How experts are chosen and weighed."""

    gating: Gating = "softmax"
    is_normed: bool = True
    is_scaled: bool = False


def dense(build: Build, x: Node, start: str, suffix: str = "", *, is_gated: bool = True) -> Node:
    """Up, gate and down; a fused matrix holds gate and up in one, a plain one has an activation between."""
    up = build.linear(x, f"{start}ffn_up{suffix}")
    if build.weight(f"{start}ffn_gate{suffix}.weight") is not None:
        inner = gated(build.linear(x, f"{start}ffn_gate{suffix}"), up)
    else:
        inner = gated(up) if is_gated else same("unary", up)
    return build.linear(inner, f"{start}ffn_down{suffix}")


def experts(build: Build, x: Node, start: str, mixture: Mixture) -> Node:
    """The chosen experts' answers, weighed and added up."""
    used = build.model.number("expert_used_count")
    width, tokens = x.ne[0], x.ne[1]
    probabilities = logits = build.linear(x, f"{start}ffn_gate_inp")
    if mixture.gating != "softmax_weight":
        probabilities = same("soft_max" if mixture.gating == "softmax" else "unary", logits)
    chosen = best(_for_choice(build, probabilities, start), used)
    weights = take_rows(reshape(probabilities, 1, logits.ne[0], tokens), chosen)
    weights = _weighed(weights, used, tokens, mixture)
    build.add(weights)
    x = reshape(x, width, 1, tokens)
    inner = _inner(build, x, start, chosen)
    down = _expert_linear(build, inner, f"{start}ffn_down_exps", chosen)
    answers = same("mul", down, weights)
    build.add(answers)
    parts = [view(answers, (width, tokens), (answers.nb[2],)) for _ in range(used)]
    for part in parts:
        build.add(part)
    total = parts[0]
    for part in parts[1:]:
        total = same("add", total, part)
        build.add(total)
    return total if used > 1 else contiguous(total)


def _for_choice(build: Build, probabilities: Node, start: str) -> Node:
    """The probabilities that experts are chosen by: with a correction, or within groups."""
    bias = build.weight(f"{start}exp_probs_b.bias")
    choice = probabilities if bias is None else same("add", probabilities, bias)
    groups, used = build.model.number("expert_group_count"), build.model.number("expert_group_used_count")
    if groups <= 1:
        return choice
    count, tokens = choice.ne[0], choice.ne[1]
    each = count // groups
    grouped = reshape(choice, each, groups, tokens)
    scores = take_rows(reshape(grouped, 1, each, groups, tokens), best(grouped, 2))
    scores = row_sums(reshape(scores, scores.ne[1], scores.ne[2], scores.ne[3]))
    picked = best(reshape(scores, scores.ne[1], scores.ne[2]), used)
    kept = take_rows(grouped, picked)
    masked = same("fill", grouped)
    stored = Node("set_rows", masked.ne, masked.kind, (kept, picked, masked), view=masked, nb=masked.nb)
    return reshape(stored, count, tokens)


def _weighed(weights: Node, used: int, tokens: int, mixture: Mixture) -> Node:
    """The weights of the chosen experts, [1, k, tokens]."""
    if mixture.gating == "softmax_weight":
        weights = reshape(same("soft_max", reshape(weights, used, tokens)), 1, used, tokens)
    if mixture.is_normed:
        flat = reshape(weights, used, tokens)
        weights = reshape(same("div", flat, same("clamp", row_sums(flat))), 1, used, tokens)
    return same("scale", weights) if mixture.is_scaled else weights


def _expert_linear(build: Build, x: Node, name: str, chosen: Node) -> Node:
    result = expert_product(build.needed(f"{name}.weight"), x, chosen)
    bias = build.weight(f"{name}.bias")
    return same("add_id", result, bias, chosen) if bias is not None else result


def _inner(build: Build, x: Node, start: str, chosen: Node) -> Node:
    """Gate and up of the chosen experts, after the activation."""
    if build.weight(f"{start}ffn_gate_up_exps.weight") is not None:
        both = _expert_linear(build, x, f"{start}ffn_gate_up_exps", chosen)
        ne = (both.ne[0] // 2, both.ne[1], both.ne[2])
        return gated(view(both, ne, both.nb[1:3]), view(both, ne, both.nb[1:3]))
    up = _expert_linear(build, x, f"{start}ffn_up_exps", chosen)
    if build.weight(f"{start}ffn_gate_exps.weight") is None:
        return same("unary", up)
    return gated(_expert_linear(build, x, f"{start}ffn_gate_exps", chosen), up)


def shared_expert(build: Build, x: Node, start: str) -> Node | None:
    """The expert that runs for every token, behind its own gate where it has one."""
    if build.weight(f"{start}ffn_up_shexp.weight") is None:
        return None
    answer = dense(build, x, start, "_shexp")
    gate = build.weight(f"{start}ffn_gate_inp_shexp.weight")
    if gate is None:
        return answer
    opening = product(gate, x)
    opened = same("unary", opening)
    if build.model.architecture == "qwen2moe":
        opened = same("div", opened, opening)
    return same("mul", answer, opened)
