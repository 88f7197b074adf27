"""What transformers' caches hold between two steps, and what lives beside them while one token is appended.

Legend: S sequences, T tokens of each, K all keys and values of the model in the cache format, k those of its largest
layer, r tokens of the 16-bit rest of a quantised cache.
    tuple       2 K             the tuple of the last step stays until the tuple of this one is complete
    dynamic     K + k           each layer is concatenated anew, and its old tensors go at once
    static      K for the longest length, from the start; nothing is concatenated
    quantized   bits/8 + 4/64 B an element, a rest of r = 128 tokens in the model's format, and one layer's keys and
                values in the model's format while they are used
Layers with a window keep window - 1 tokens in a dynamic cache from 4.56 and window in a static one; before, and in
tuples, all of them.
    8-bit tuple of first-generation Qwen     1 B an element, and a scale and a zero of 16 bits for each head
Sources: `cache_utils.py` of transformers 4.57 and 5.24 (quantised groups of 64 with a 16-bit scale and shift each),
`modeling_qwen.py` and the profiling script of Qwen's own repository (peak of PyTorch's allocated bytes, in GiB).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.architecture.model import Architecture, Attention
from capienza.formats.blocks import tensor_bytes
from capienza.predict.cache import TRANSFORMERS_RULE, CacheRule, cache_need, kept_tokens
from capienza.predict.inference.serving import Serving
from capienza.predict.placement import kv_heads_on_rank

Kind = Literal["tuple", "dynamic", "static", "quantized"]
CLASSES_FROM = (4, 36)
WINDOWS_FROM = (4, 56)
TUPLE_TYPES = ("qwen", "baichuan", "chatglm")
"""Families whose code comes with the checkpoint and predates the cache classes."""
RESIDUAL_TOKENS = 128
GROUP_BYTES_PER_ELEMENT = 4 / 64
HEAD_SCALE_BYTES = 4
QUANTIZED_BITS = 4
STATIC_RULE = CacheRule(window_less=0, conv_more=1)


class CacheBytes(msgspec.Struct, frozen=True):
    """Bytes of all sequences on one rank: kept between steps, and alive beside that during a step."""

    kind: Kind
    kept_bytes: int
    copies_bytes: int
    state_bytes: int
    layer_bytes: int
    """Keys and values of the largest layer in the model's own format."""
    tensors: int


def cache_kind(serving: Serving, version: tuple[int, int]) -> Kind:
    """The cache that `generate` builds for this model and these options."""
    asked = str(serving.options.get("cache_implementation") or "")
    if asked.startswith(("static", "hybrid", "sliding")):
        return "static"
    if serving.architecture.model_type in TUPLE_TYPES or version < CLASSES_FROM:
        return "tuple"
    return "quantized" if asked.startswith("quant") or is_quantized(serving) else "dynamic"


def is_quantized(serving: Serving) -> bool:
    """Are keys and values kept in fewer bits than the model's own?"""
    return str(serving.options.get("kv_cache_dtype") or "auto") not in ("auto", serving.dtype)


def cache_bytes(serving: Serving, version: tuple[int, int], tokens: int, sequences: int) -> CacheBytes:
    """The cache of `sequences` sequences of `tokens` tokens. Raises `InputError` for a format that does not divide."""
    kind = cache_kind(serving, version)
    architecture = serving.architecture
    rule = STATIC_RULE if kind == "static" else TRANSFORMERS_RULE
    keeps_windows = kind == "static" or (kind != "tuple" and version >= WINDOWS_FROM)
    need = cache_need(architecture, tokens, serving.dtype, serving.dtype, rule)
    held = {
        attention: kept_tokens(attention, tokens, rule) if keeps_windows else tokens
        for attention in _attentions(architecture)
    }
    ranks = serving.split.tensor_parallel
    plain = sum(_row_bytes(serving, item.attention) * held[item.attention] for item in architecture.layers
                if item.attention is not None and item.attention.cache_width)  # fmt: skip
    layer = max((_row_bytes(serving, attention) * count for attention, count in held.items()), default=0)
    kept = plain
    if kind == "quantized":
        kept = _quantized_bytes(serving, plain, tokens)
    elif kind == "tuple" and is_quantized(serving):
        kept = _eight_bit_bytes(serving, tokens)
    copies = {"tuple": kept, "dynamic": layer, "static": 0, "quantized": layer}[kind]
    return CacheBytes(
        kind=kind,
        kept_bytes=sequences * kept,
        copies_bytes=sequences * copies,
        state_bytes=sequences * -(-need.state_bytes // ranks),
        layer_bytes=sequences * layer,
        tensors=2 * sum(1 for item in architecture.layers if item.attention is not None and item.attention.cache_width),
    )


def _attentions(architecture: Architecture) -> tuple[Attention, ...]:
    found = dict.fromkeys(layer.attention for layer in architecture.layers if layer.attention is not None)
    return tuple(attention for attention in found if attention.cache_width)


def _row_bytes(serving: Serving, attention: Attention) -> int:
    """One token of one layer on one rank, in the model's own format."""
    if attention.kind == "latent":
        return tensor_bytes((attention.latent_width,), serving.dtype)
    width = attention.key_head_dim + attention.value_head_dim
    heads = kv_heads_on_rank(attention, serving.split.tensor_parallel)
    return tensor_bytes((heads * width,), serving.dtype)


def _quantized_bytes(serving: Serving, plain_bytes: int, tokens: int) -> int:
    """A part in the model's format, the rest in few bits with a scale and a shift for each group."""
    element = tensor_bytes((1,), serving.dtype)
    bits = serving.count("cache_nbits") or (8 if "8" in str(serving.options.get("kv_cache_dtype")) else QUANTIZED_BITS)
    residual = min(tokens, serving.count("residual_length") or RESIDUAL_TOKENS)
    share = (bits / 8 + GROUP_BYTES_PER_ELEMENT) / element
    inside = plain_bytes * (tokens - residual) * share / tokens if tokens else 0
    return int(inside) + (plain_bytes * residual // tokens if tokens else 0)


def _eight_bit_bytes(serving: Serving, tokens: int) -> int:
    """8-bit keys and values with a scale and a zero for each head and token."""
    total = 0
    for layer in serving.architecture.layers:
        attention = layer.attention
        if attention is None or not attention.cache_width:
            continue
        heads = kv_heads_on_rank(attention, serving.split.tensor_parallel)
        width = attention.key_head_dim + attention.value_head_dim
        total += tokens * heads * (width + 2 * HEAD_SCALE_BYTES)
    return total
