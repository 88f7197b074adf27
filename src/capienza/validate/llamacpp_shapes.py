"""The tensors that a GGUF file of a known architecture has, by name and shape, from the numbers that a log prints.

Legend: E embedding, V vocabulary, F feed-forward width, Q and K elements of all query and key heads, one line for each
tensor of a block. Shapes have the row length last. A log lists no names: optional tensors are tried until the counts
of all tensors and of the fp32 ones agree (`variants`).
Sources: the converters of llama.cpp at 0c1e57098 (conversion/) and `load_arch_tensors` of each model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import msgspec

Shape = tuple[int, ...]
Shapes = dict[str, Shape]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the metadata of a model says, by the names of this module's legend."""

    architecture: str
    blocks: int
    hidden: int
    vocabulary: int
    forward: int
    heads: int
    kv_heads: tuple[int, ...]
    key: int
    value: int
    keys: Mapping[str, Any]

    def number(self, key: str, default: int = 0) -> int:
        """A whole number of the metadata."""
        value = self.keys.get(key, default)
        return value if isinstance(value, int) else default


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors that a file may lack."""

    tied: bool
    rotary_table: bool = False
    expert_bias: bool = True
    split_latent: bool = True
    whole_latent: bool = False


def variants(facts: Facts) -> Iterator[Shapes]:
    """Every table that a file of this architecture may have; nothing for one that is not known here."""
    block = BLOCKS.get(facts.architecture)
    if block is None:
        return
    flags = product((False, True), (False, True), (True, False), ((True, False), (True, True), (False, True)))
    seen: list[Shapes] = []
    for tied, rotary, bias, (split, whole) in flags:
        options = Options(tied=tied, rotary_table=rotary, expert_bias=bias, split_latent=split, whole_latent=whole)
        shapes: Shapes = {"token_embd.weight": (facts.vocabulary, facts.hidden)}
        for index in range(facts.blocks):
            shapes |= {f"blk.{index}.{name}": shape for name, shape in block(facts, index, options).items()}
        shapes |= _after(facts, options)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def _after(facts: Facts, options: Options) -> Shapes:
    """What a converter writes after the blocks."""
    table: Shapes = {}
    if options.rotary_table:
        table["rope_freqs.weight"] = (facts.number("rope.dimension_count", facts.key) // 2,)
    norm = "token_embd_norm" if facts.architecture.startswith("lfm2") else "output_norm"
    table[f"{norm}.weight"] = (facts.hidden,)
    return table if options.tied else table | {"output.weight": (facts.vocabulary, facts.hidden)}


def _attention(facts: Facts, index: int, *, query: int = 1) -> Shapes:
    width, kv_heads = facts.hidden, facts.kv_heads[index]
    return {
        "attn_norm.weight": (width,),
        "attn_q.weight": (facts.heads * facts.key * query, width),
        "attn_k.weight": (kv_heads * facts.key, width),
        "attn_v.weight": (kv_heads * facts.value, width),
        "attn_output.weight": (width, facts.heads * facts.value),
    }


def _key_norms(facts: Facts) -> Shapes:
    return {"attn_q_norm.weight": (facts.key,), "attn_k_norm.weight": (facts.key,)}


def _biases(shapes: Shapes, *names: str) -> Shapes:
    return {f"{name}.bias": (*shapes[f"{name}.weight"][:-1],) for name in names}


def _dense(width: int, forward: int, suffix: str = "") -> Shapes:
    return {
        f"ffn_gate{suffix}.weight": (forward, width),
        f"ffn_up{suffix}.weight": (forward, width),
        f"ffn_down{suffix}.weight": (width, forward),
    }


def _experts(facts: Facts) -> Shapes:
    count = facts.number("expert_count")
    forward = facts.number("expert_feed_forward_length") or facts.forward
    stacked = {name: (count, *shape) for name, shape in _dense(facts.hidden, forward, "_exps").items()}
    return {"ffn_gate_inp.weight": (count, facts.hidden), **stacked}


def _forward(facts: Facts) -> Shapes:
    norm = {"ffn_norm.weight": (facts.hidden,)}
    return norm | (_experts(facts) if facts.number("expert_count") else _dense(facts.hidden, facts.forward))


def _llama(facts: Facts, index: int, _: Options) -> Shapes:
    return _attention(facts, index) | _forward(facts)


def _qwen2(facts: Facts, index: int, _: Options) -> Shapes:
    attention = _attention(facts, index)
    return attention | _biases(attention, "attn_q", "attn_k", "attn_v") | _forward(facts)


def _qwen3(facts: Facts, index: int, _: Options) -> Shapes:
    return _attention(facts, index) | _key_norms(facts) | _forward(facts)


def _post_norms(facts: Facts) -> Shapes:
    return {"post_attention_norm.weight": (facts.hidden,), "post_ffw_norm.weight": (facts.hidden,)}


def _gemma2(facts: Facts, index: int, _: Options) -> Shapes:
    return _attention(facts, index) | _post_norms(facts) | _forward(facts)


def _gemma3(facts: Facts, index: int, options: Options) -> Shapes:
    return _gemma2(facts, index, options) | _key_norms(facts)


def _glm4(facts: Facts, index: int, _: Options) -> Shapes:
    fused = {
        "ffn_norm.weight": (facts.hidden,),
        "ffn_up.weight": (2 * facts.forward, facts.hidden),
        "ffn_down.weight": (facts.hidden, facts.forward),
    }
    return _attention(facts, index) | _post_norms(facts) | fused


def _gpt_oss(facts: Facts, index: int, _: Options) -> Shapes:
    attention, experts = _attention(facts, index), _experts(facts)
    return {
        **attention,
        **_biases(attention, "attn_q", "attn_k", "attn_v", "attn_output"),
        "post_attention_norm.weight": (facts.hidden,),
        "attn_sinks.weight": (facts.heads,),
        **experts,
        **_biases(experts, "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
    }


def _bitnet(facts: Facts, index: int, _: Options) -> Shapes:
    norms = {"attn_sub_norm.weight": (facts.heads * facts.value,), "ffn_sub_norm.weight": (facts.forward,)}
    return _attention(facts, index) | norms | _forward(facts)


def _deepseek2(facts: Facts, index: int, options: Options) -> Shapes:
    width, heads, latent = facts.hidden, facts.heads, facts.number("attention.kv_lora_rank")
    rotary = facts.number("rope.dimension_count")
    key = facts.number("attention.key_length_mla") or facts.number("attention.key_length")
    value = facts.number("attention.value_length_mla") or facts.number("attention.value_length")
    rank = facts.number("attention.q_lora_rank")
    table: Shapes = {"attn_norm.weight": (width,), "attn_kv_a_norm.weight": (latent,)}
    table["attn_kv_a_mqa.weight"] = (latent + rotary, width)
    if options.split_latent:
        table["attn_k_b.weight"] = (heads, latent, key - rotary)
        table["attn_v_b.weight"] = (heads, value, latent)
    if options.whole_latent:
        table["attn_kv_b.weight"] = (heads * (key - rotary + value), latent)
    if rank:
        table["attn_q_a_norm.weight"] = (rank,)
        table["attn_q_a.weight"] = (rank, width)
        table["attn_q_b.weight"] = (heads * key, rank)
    else:
        table["attn_q.weight"] = (heads * key, width)
    table |= {"attn_output.weight": (width, heads * value), "ffn_norm.weight": (width,)}
    if index < facts.number("leading_dense_block_count"):
        return table | _dense(width, facts.forward)
    shared = facts.number("expert_shared_count") * facts.number("expert_feed_forward_length")
    table |= _experts(facts) | (_dense(width, shared, "_shexp") if shared else {})
    if rank and options.expert_bias:
        table["exp_probs_b.bias"] = (facts.number("expert_count"),)
    return table


def _ssm(facts: Facts) -> tuple[int, int, int, int, int]:
    """Inner size, state size, groups, time step rank, convolution width."""
    inner, state = facts.number("ssm.inner_size"), facts.number("ssm.state_size")
    groups, rank = facts.number("ssm.group_count"), facts.number("ssm.time_step_rank")
    return inner, state, groups, rank, inner + 2 * groups * state


def _falcon_h1(facts: Facts, index: int, _: Options) -> Shapes:
    inner, _state, _groups, rank, width = _ssm(facts)
    forward: Shapes = {"ffn_norm": (facts.hidden,)}
    forward |= _dense(facts.hidden, facts.forward)
    return {
        **_attention(facts, index),
        "ssm_in.weight": (inner + width + rank, facts.hidden),
        "ssm_conv1d.weight": (width, facts.number("ssm.conv_kernel")),
        "ssm_conv1d.bias": (width,),
        "ssm_dt.bias": (rank,),
        "ssm_a": (rank, 1),
        "ssm_d": (rank, 1),
        "ssm_out.weight": (facts.hidden, inner),
        **forward,
    }


def _qwen35(facts: Facts, index: int, _: Options) -> Shapes:
    width = facts.hidden
    forward: Shapes = {"post_attention_norm.weight": (width,)}
    forward |= _experts(facts) if facts.number("expert_count") else _dense(width, facts.forward)
    if (index + 1) % (facts.number("full_attention_interval") or 4) == 0:
        return _attention(facts, index, query=2) | _key_norms(facts) | forward
    inner, state, _groups, rank, channels = _ssm(facts)
    return {
        "attn_norm.weight": (width,),
        "attn_qkv.weight": (channels, width),
        "attn_gate.weight": (inner, width),
        "ssm_conv1d.weight": (channels, facts.number("ssm.conv_kernel")),
        "ssm_dt.bias": (rank,),
        "ssm_a": (rank,),
        "ssm_beta.weight": (rank, width),
        "ssm_alpha.weight": (rank, width),
        "ssm_norm.weight": (state,),
        "ssm_out.weight": (width, inner),
        **forward,
    }


def _lfm2(facts: Facts, index: int, _: Options) -> Shapes:
    if facts.kv_heads[index]:
        return _attention(facts, index) | _key_norms(facts) | _forward(facts)
    mixer = {
        "attn_norm.weight": (facts.hidden,),
        "shortconv.conv.weight": (facts.hidden, facts.number("shortconv.l_cache")),
        "shortconv.in_proj.weight": (3 * facts.hidden, facts.hidden),
        "shortconv.out_proj.weight": (facts.hidden, facts.hidden),
    }
    return mixer | _forward(facts)


BLOCKS: dict[str, Callable[[Facts, int, Options], Shapes]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3moe": _qwen3,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "chatglm": _glm4,
    "glm4": _glm4,
    "gpt-oss": _gpt_oss,
    "bitnet": _bitnet,
    "bitnet-25": _bitnet,
    "deepseek2": _deepseek2,
    "falcon-h1": _falcon_h1,
    "qwen35": _qwen35,
    "qwen35moe": _qwen35,
    "lfm2": _lfm2,
}
