"""KV cache and recurrent state of a list of layers, before any engine's own rounding.

Legend: T tokens held for one sequence, S sequences, w elements kept for one token in one layer
(`Attention.cache_width`), W window of a sliding or chunked layer, row(w) bytes of w elements in the cache format.
    full or latent layer       S * T * row(w)
    sliding or chunked layer   S * min(T, W) * row(w)   when the engine keeps only the window
                               S * T * row(w)           when it stores every layer in full
    compressed tokens          S * (T div r * row(w) + T mod r * pending + carried) for every group of r tokens
    state of a layer           S * sum(elements * bytes), independent of T
Source: the shapes that transformers' own cache objects hold after prefill and decode (checked in the tests).
Engines add block rounding and padding on top; those are theirs and are not counted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from capienza.architecture.model import Architecture, Attention, Compression, StatePart
from capienza.formats.blocks import tensor_bytes


class CacheRule(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine keeps beside the layers' own sizes.

    `window_less` is how many tokens fewer than the window a sliding layer holds between steps; `conv_more` the
    columns that a convolution's history keeps beyond kernel - 1.
    """

    window_less: int = 0
    conv_more: int = 0


PLAIN_RULE = CacheRule()
TRANSFORMERS_RULE = CacheRule(window_less=1, conv_more=1)
"""transformers 5.24: between steps a sliding layer holds window - 1 tokens, a convolution `kernel` columns."""


class CacheNeed(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one sequence in one copy of the model, with the formulas that gave them."""

    windowed_bytes: int
    full_bytes: int
    latent_bytes: int
    """The part of both that latent attention and indexers keep: every tensor-parallel rank holds all of it."""
    state_bytes: int
    formula: str
    state_formula: str


def cache_need(
    architecture: Architecture, tokens: int, cache_format: str, model_format: str, rule: CacheRule = PLAIN_RULE
) -> CacheNeed:
    """The cache and the state of one sequence of `tokens` tokens.

    `cache_format` is the format of K and V, `model_format` that of the state parts that follow the model.
    Equal layers are counted once and multiplied. Raises `InputError` when a row is not a whole number of blocks.
    """
    kinds = Counter(_attentions(architecture))
    windowed = full = latent = 0
    lines = []
    for attention, layers in kinds.items():
        extra = _index_extra(attention, cache_format)
        row = tensor_bytes((attention.cache_width,), cache_format) + extra
        kept = kept_tokens(attention, tokens, rule)
        windowed += layers * kept * row
        full += layers * tokens * row
        latent += layers * kept * (tensor_bytes((attention.whole_width,), cache_format) + extra)
        lines.append(f"{layers} {attention.kind} x {kept} x {row}")
        for compression in attention.compressions:
            group = _compressed_bytes(compression, tokens, cache_format, model_format)
            windowed, full, latent = windowed + layers * group, full + layers * group, latent + layers * group
            lines.append(f"{layers} compressed x {group}")
    states = Counter(layer.state for layer in architecture.layers if layer.state)
    state = 0
    state_lines = []
    for kind, layers in states.items():
        for part in kind.parts:
            part_bytes = tensor_bytes(kept_shape(part, rule), part.dtype or model_format)
            state += layers * part_bytes
            state_lines.append(f"{layers} {part.name} x {part_bytes}")
    return CacheNeed(
        windowed_bytes=windowed,
        full_bytes=full,
        latent_bytes=latent,
        state_bytes=state,
        formula=" + ".join(lines),
        state_formula=" + ".join(state_lines),
    )


def kept_tokens(attention: Attention, tokens: int, rule: CacheRule = PLAIN_RULE) -> int:
    """How many of a sequence's tokens the layer needs to keep."""
    return tokens if attention.window is None else min(tokens, attention.window - rule.window_less)


def _compressed_bytes(compression: Compression, tokens: int, cache_format: str, model_format: str) -> int:
    """Bytes of the entries so far, and of what waits for the next one in the model's own type."""
    entries, left = divmod(tokens, compression.rate)
    waiting = tensor_bytes((left * compression.pending,), model_format)
    if entries:
        waiting += tensor_bytes((compression.carried,), model_format) + tensor_bytes(
            (compression.carried_fp32,), "fp32"
        )
    return entries * tensor_bytes((compression.width,), cache_format) + waiting


def _index_extra(attention: Attention, cache_format: str) -> int:
    """Bytes a token by which an indexer's keys in a format of their own exceed the same keys in that of the cache."""
    width = attention.passes * attention.index_width
    if attention.index_dtype is None or not width:
        return 0
    return tensor_bytes((width,), attention.index_dtype) - tensor_bytes((width,), cache_format)


def kept_shape(part: StatePart, rule: CacheRule) -> tuple[int, ...]:
    """The shape of a part of a state; a convolution's is [columns, channels]."""
    if part.name != "conv":
        return part.shape
    columns, *channels = part.shape
    return (columns + rule.conv_more, *channels)


def _attentions(architecture: Architecture) -> Iterator[Attention]:
    for layer in architecture.layers:
        if layer.attention is not None and layer.attention.cache_width:
            yield layer.attention
