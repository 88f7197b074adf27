"""Attention: queries, keys and values, their way through the cache, and the softmax.

Legend: q, k, v heads of a batch, [head, heads, tokens]; cells of the cache of the layer; streams caches side by side.
Source: `build_qkv`, `build_attn`, `build_attn_mha` (llama-graph.cpp), `cpy_k`, `cpy_v`, `get_k`, `get_v`
(llama-kv-cache.cpp), both of llama.cpp at 0c1e57098.
"""

from __future__ import annotations

from capienza.architecture.model import Attention, Layer
from capienza.predict.inference.llamacpp.cache import flash_attention as flash_attention_asked
from capienza.predict.inference.llamacpp.cache import layer_cells, widest_value
from capienza.predict.inference.llamacpp.graph.build import Build, UnknownGraphError
from capienza.predict.inference.llamacpp.graph.graph import cache
from capienza.predict.inference.llamacpp.graph.node import Node, block, row_size
from capienza.predict.inference.llamacpp.graph.operations import (
    contiguous,
    flash_attention,
    packed_view,
    permute_middle,
    product,
    reshape,
    rotated,
    same,
    store_rows,
    transpose,
    view,
)

ROTATED_HEAD = 64
"""A quantised cache holds rotated heads when their width is a multiple of this."""


class CacheViews:
    """The cache of one layer: its tensors, and the inputs that all layers of the same kind share.

    `by_token`: V lies like K. It is decided before "auto" finds out that flash attention cannot be used.
    """

    def __init__(self, build: Build, layer: Layer, attention: Attention) -> None:
        self.build = build
        self.attention = attention
        self.group = 0 if attention.window is None else 1
        self.cells = layer_cells(attention, build.runtime, build.sizes)
        self.streams = build.sizes.streams
        self.owner = build.where.caches[layer.index]
        runtime, heads = build.runtime, attention.num_key_value_heads
        self.key_width = attention.latent_width or heads * attention.key_head_dim
        self.key = cache((self.key_width, self.cells, self.streams, 1), runtime.cache_type_k, self.owner)
        self.value_width = heads * attention.value_head_dim
        self.by_token = flash_attention_asked(build.runtime)
        widest = self.value_width if self.by_token else widest_value(build.model)
        self.value = cache((widest, self.cells, self.streams, 1), runtime.cache_type_v, self.owner)

    @property
    def mask(self) -> Node:
        """One number for each cell and token, as attention reads it."""
        build, era = self.build, self.build.runtime.era
        kind = "fp16" if build.flash and era.mask_is_f16 else "fp32"
        tokens = build.step.tokens // self.streams
        mask = build.input("mask", self.cells, tokens, 1, self.streams, kind=kind, of=self.group)
        if build.flash and not era.mask_is_f16:
            return build.once("mask_f16", lambda: Node("cpy", mask.ne, "fp16", (mask,)), of=self.group)
        return mask

    def store_key(self, k: Node) -> Node:
        """Keys of the batch, written into their cells."""
        tokens = self.build.step.tokens
        where = self.build.input("key_cells", tokens, kind="int64", of=self.group)
        flat = view(k, (k.ne[0] * k.ne[1], tokens), (k.nb[2],))
        return store_rows(self._merged(self.key), flat, where)

    def store_value(self, v: Node) -> Node:
        """Values of the batch, written into their cells; without flash attention one element at a time."""
        tokens, width = self.build.step.tokens, v.ne[0] * v.ne[1]
        if self.by_token:
            where = self.build.input("value_cells", tokens, kind="int64", of=self.group)
            return store_rows(self._merged(self.value), view(v, (width, tokens), (v.nb[2],)), where)
        widest = self.value.ne[0]
        where = self.build.input("value_cells", tokens * widest, kind="int64", of=self.group)
        is_packed = row_size(v.kind, width) == v.nb[2]
        flat = reshape(v, width, tokens) if is_packed else contiguous(v, (width, tokens, 1, 1))
        if width < widest:
            flat = Node("pad", (widest, tokens, 1, 1), flat.kind, (flat,))
        return store_rows(reshape(self.value, 1, self.value.count), reshape(flat, 1, flat.count), where)

    def _merged(self, tensor: Node) -> Node:
        """All streams as one."""
        return reshape(tensor, tensor.ne[0], self.cells * self.streams) if self.streams > 1 else tensor

    def keys(self) -> Node:
        """All the cells of K, by head."""
        attention, kind = self.attention, self.build.runtime.cache_type_k
        head = self.key_width // attention.num_key_value_heads
        row = row_size(kind, self.key_width)
        ne = (head, attention.num_key_value_heads, self.cells, self.streams)
        return view(self.key, ne, (row_size(kind, head), row, row * self.cells))

    def values(self, keys: Node, width: int) -> Node:
        """All the cells of V, by head; of a latent cache a part of K."""
        attention, kind = self.attention, self.build.runtime.cache_type_v
        if attention.kind == "latent":
            return view(keys, (width, *keys.ne[1:]), keys.nb[1:])
        head, heads = attention.value_head_dim, attention.num_key_value_heads
        row = row_size(kind, self.value.ne[0])
        if self.by_token:
            ne = (head, heads, self.cells, self.streams)
            return view(self.value, ne, (row_size(kind, head), row, row * self.cells))
        cells = row_size(kind, self.cells)
        ne = (self.cells, heads, head, self.streams)
        return view(self.value, ne, (cells * head, cells, cells * self.value.ne[0]))

    def rotation(self, letter: str, head: int) -> Node | None:
        """The rotation of keys or values in a quantised cache."""
        runtime = self.build.runtime
        kind = runtime.cache_type_k if letter == "k" else runtime.cache_type_v
        if block(kind)[0] == 1 or head % ROTATED_HEAD or self.attention.kind == "latent" or not runtime.era.rotates:
            return None
        width = ROTATED_HEAD
        if letter == "k":
            while head % (2 * width) == 0:
                width *= 2
        return self.build.input(f"rotation_{letter}", width, width, of=self.group)


def heads_of(build: Build, attention: Attention, cur: Node, start: str) -> tuple[Node, Node, Node]:
    """Queries, keys and values of a batch, by head."""
    tokens = build.step.tokens
    key, value = attention.key_head_dim, attention.value_head_dim
    heads, kv_heads = attention.num_attention_heads, attention.num_key_value_heads
    if build.weight(f"{start}attn_qkv.weight") is not None:
        fused = build.linear(cur, f"{start}attn_qkv")
        return (
            packed_view(fused, key, heads, tokens),
            packed_view(fused, key, kv_heads, tokens),
            packed_view(fused, value, kv_heads, tokens),
        )
    q, k, v = (build.linear(cur, f"{start}attn_{letter}") for letter in "qkv")
    return reshape(q, key, heads, tokens), reshape(k, key, kv_heads, tokens), reshape(v, value, kv_heads, tokens)


def attend(
    build: Build, layer: Layer, q: Node, k: Node | None, v: Node | None, *, decompress: Node | None = None
) -> Node:
    """The batch through the cache: [heads x head, tokens]. Keys and values are None where a layer shares a cache."""
    attention = layer.attention
    if attention is None:
        name = f"blk.{layer.index}"
        raise UnknownGraphError(name)
    cached = CacheViews(build, layer, attention)
    rotate_k, rotate_v = (cached.rotation(letter, head) for letter, head in (
        ("k", attention.key_head_dim), ("v", attention.value_head_dim)
    ))  # fmt: skip
    if rotate_k is not None:
        q = rotated(q, rotate_k)
        k = rotated(k, rotate_k) if k is not None else None
    if rotate_v is not None and v is not None:
        v = rotated(v, rotate_v)
    has_windows = any(other.attention and other.attention.window for other in build.model.layers)
    order = (q, k, v) if has_windows else (q, v, k)
    for tensor in order:
        if tensor is not None:
            build.add(tensor)
    if k is not None:
        build.add(cached.store_key(k))
    if v is not None and attention.kind != "latent":
        build.add(cached.store_value(v))
    keys = cached.keys()
    values = cached.values(keys, v.ne[0] if v is not None else attention.value_head_dim)
    cur = _softmax(build, layer.index, cached, q, keys, values, decompress)
    return rotated(cur, rotate_v) if rotate_v is not None else cur


def _softmax(
    build: Build, index: int, cached: CacheViews, q: Node, keys: Node, values: Node, decompress: Node | None
) -> Node:
    tokens = q.ne[2] // cached.streams
    q = view(q, (q.ne[0], q.ne[1], tokens, cached.streams), (q.nb[1], q.nb[2], q.nb[2] * tokens))
    q, keys = permute_middle(q), permute_middle(keys)
    is_transposed = values.nb[1] > values.nb[2]
    values = permute_middle(values)
    sinks = build.weight(f"blk.{index}.attn_sinks.weight")
    if build.flash:
        cur = flash_attention(q, keys, values, cached.mask, sinks)
        build.attentions.append((index, cur))
        if decompress is not None:
            cur = contiguous(permute_middle(product(decompress, permute_middle(cur))))
        cur = reshape(cur, cur.ne[0] * cur.ne[1], cur.ne[2] * cur.ne[3])
    else:
        scores = _capped(build, product(keys, q))
        scores = same("soft_max", scores, cached.mask, sinks)
        if not is_transposed:
            values = contiguous(transpose(values))
        cur = product(values, scores)
        if decompress is not None:
            cur = product(decompress, cur)
        cur = permute_middle(cur)
        cur = contiguous(cur, (cur.ne[0] * cur.ne[1], cur.ne[2] * cur.ne[3], 1, 1))
        if not build.runtime.kv_offload:
            build.pin(cur, build.where.cpu)
    build.add(cur)
    return cur


def _capped(build: Build, scores: Node) -> Node:
    """Scores under a soft cap, where the model has one."""
    if "attn_logit_softcapping" not in build.model.keys and build.model.architecture != "gemma2":
        return scores
    return same("scale", same("unary", same("scale", scores)))
