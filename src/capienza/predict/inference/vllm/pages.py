"""How vLLM divides its pool into blocks, and how many sequences those blocks carry.

Legend: b tokens of a block, page the bytes of one block in one layer, L tokens of one sequence, W window, C chunk,
n tokens scheduled at once (`max_num_batched_tokens`).
    page of K and V         b * kv_heads_on_rank * (key_head_dim + value_head_dim) * bytes of an element
    page of latent          b * latent_width * bytes of an element, whole on every tensor-parallel rank
    page of a state         state of one sequence on this rank, padded up to the attention page
Layers of one kind make groups of g layers, g the smallest count of a kind (from 0.12: the largest when it is below
1.5 times the smallest); the last group of a kind is padded. Blocks = floor(pool / (g * page)).
    blocks of one sequence, summed over the groups
        full, latent   ceil(L / b)
        sliding        ceil(min(W - 1 + n, L) / b) + 1
        chunked        ceil(min(C + n, L) / b)
        capped         ceil(min(W, L) / b), V0 where every layer has the one window
        state          1; 2 when prefixes are cached (from 0.14)
Where layers of several kinds are held in full (V0, before 0.9, `disable_hybrid_kv_cache_manager`) there is one group.
A state makes the attention block grow: the smallest multiple of 16 tokens whose page holds the state.
Source: `v1/core/kv_cache_utils.py` and `v1/kv_cache_interface.py` of 0.11.2, `kv_cache_planning.py` of 0.33.0;
checked on logged pools, tokens and concurrencies.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from capienza.architecture.model import Architecture, Attention, Layer, State
from capienza.formats.blocks import tensor_bytes
from capienza.predict.inference.vllm.version import Version
from capienza.predict.placement import kv_heads_on_rank

PageKind = Literal["full", "sliding", "chunked", "capped", "state"]
STATE_BLOCK_MULTIPLE = 16
FP32_STATE_TYPES = ("qwen3_5", "qwen3_6", "nemotron_h")
"""Model types whose recurrent state vLLM keeps in fp32 unless told otherwise; the others take the model's format."""
SPARSE_LATENT_BYTES = 656
"""`fp8_ds_mla`: 512 fp8 + 4 fp32 scales + 64 bf16 for one token of one layer."""


class PageRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that shape pages on one rank."""

    version: Version
    block_size: int
    cache_format: str
    model_format: str
    tensor_parallel: int = 1
    state_format: str | None = None
    keeps_windows: bool = True
    caches_prefixes: bool = True
    draft_layers: int = 0


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of layer: `page_bytes` for a block of `block_size` tokens, on `layers` layers of the rank.

    A `capped` layer holds no more than its window: V0's way with a model whose layers all have one.
    """

    kind: PageKind
    page_bytes: int
    block_size: int
    layers: int
    window: int | None = None


class Kept(msgspec.Struct, frozen=True):
    """What one token (or, without a window to fill, one sequence) takes on `layers` layers before any rounding."""

    layers: int
    bytes: int
    window: int | None = None
    is_state: bool = False


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks a pool holds. `block_bytes` is one block in all the layers that share it."""

    pages: tuple[Page, ...]
    kept: tuple[Kept, ...]
    group_layers: int
    groups: int
    block_bytes: int
    block_size: int
    counts_concurrency: bool
    caches_prefixes: bool
    counts_whole_tokens: bool

    def blocks(self, pool_bytes: int) -> int:
        """Blocks that fit in `pool_bytes`."""
        return max(0, pool_bytes // self.block_bytes) if self.block_bytes else 0

    def blocks_for(self, tokens: int, max_num_batched_tokens: int) -> int:
        """Blocks that one sequence of `tokens` needs, over all groups."""
        return sum(
            -(-page.layers // self.group_layers) * _blocks(page, tokens, max_num_batched_tokens, self.caches_prefixes)
            for page in self.pages
        )

    def bytes_for(self, tokens: int, sequences: int, max_num_batched_tokens: int) -> int:
        """Pool bytes that `sequences` sequences of `tokens` tokens need."""
        return sequences * self.blocks_for(tokens, max_num_batched_tokens) * self.block_bytes

    def token_bytes(self, tokens: int) -> int:
        """What `tokens` tokens of one sequence take themselves, without rounding to blocks or groups.

        A windowed layer counts its window alone, whatever this release holds of it.
        """
        return sum(
            kept.layers * kept.bytes * (1 if kept.is_state else min(tokens, kept.window or tokens))
            for kept in self.kept
        )

    def concurrency(self, pool_bytes: int, max_model_len: int, max_num_batched_tokens: int) -> float:
        """Sequences of `max_model_len` tokens that the pool carries, as vLLM prints it."""
        needed = self.blocks_for(max_model_len, max_num_batched_tokens)
        blocks = self.blocks(pool_bytes)
        if not self.counts_whole_tokens:
            return blocks * self.block_size / max_model_len
        return blocks / needed if needed else 0.0

    def tokens(self, pool_bytes: int, max_model_len: int, max_num_batched_tokens: int) -> int:
        """The "GPU KV cache size" that vLLM prints."""
        if self.counts_concurrency:
            return int(self.concurrency(pool_bytes, max_model_len, max_num_batched_tokens) * max_model_len)
        return self.blocks(pool_bytes) // self.groups * self.block_size


def pool_of(architecture: Architecture, layers: range, rules: PageRules) -> Pool | None:
    """The pool of one rank that holds `layers`; None when none of them keeps anything."""
    kinds = _kinds([architecture.layers[index] for index in layers], rules)
    if rules.draft_layers and kinds:
        first = next((kind for kind in kinds if kind[0] == "full"), next(iter(kinds)))
        kinds[first] += rules.draft_layers
    states = Counter(layer.state for index in layers if (layer := architecture.layers[index]).state is not None)
    if not kinds and not states:
        return None
    state_bytes = max((_state_bytes(state, architecture, rules) for state in states), default=0)
    block_size = _block_size(kinds, state_bytes, rules)
    pages = [
        Page(kind=kind, page_bytes=token_bytes * block_size, block_size=block_size, layers=count, window=window)
        for (kind, window, token_bytes), count in kinds.items()
    ]
    if states:
        padded = max([state_bytes, *(page.page_bytes for page in pages)])
        pages.append(Page(kind="state", page_bytes=padded, block_size=block_size, layers=states.total()))
    kept = (*_kept(architecture, layers, rules), *_kept_states(states, architecture, rules))
    return _grouped(_equal_pages(pages), kept, rules)


def _kept(architecture: Architecture, layers: range, rules: PageRules) -> tuple[Kept, ...]:
    """Layers by what they need to keep."""
    found: Counter[tuple[int, int | None]] = Counter()
    for index in layers:
        attention = architecture.layers[index].attention
        if attention is not None and attention.cache_width:
            found[token_bytes(attention, rules), attention.window] += 1
    return tuple(Kept(count, size, window) for (size, window), count in found.items())


def _kept_states(states: Counter[State], architecture: Architecture, rules: PageRules) -> tuple[Kept, ...]:
    return tuple(
        Kept(count, _state_bytes(state, architecture, rules), is_state=True) for state, count in states.items()
    )


def _kinds(layers: list[Layer], rules: PageRules) -> Counter[tuple[PageKind, int | None, int]]:
    """Layers by kind, window and bytes of one token."""
    kinds: Counter[tuple[PageKind, int | None, int]] = Counter()
    attentions = [layer.attention for layer in layers if layer.attention is not None and layer.attention.cache_width]
    windows = {attention.window for attention in attentions}
    cap = next(iter(windows)) if len(windows) == 1 and not rules.version.is_v1 else None
    for attention in attentions:
        kind, window = _kind(attention, rules) if cap is None else ("capped", cap)
        kinds[kind, window, token_bytes(attention, rules)] += 1
    return kinds


def _kind(attention: Attention, rules: PageRules) -> tuple[PageKind, int | None]:
    if attention.window is None or not rules.keeps_windows:
        return "full", None
    return ("chunked" if attention.kind == "chunked" else "sliding"), attention.window


def token_bytes(attention: Attention, rules: PageRules) -> int:
    """Bytes that one token takes in one layer on one rank."""
    if attention.kind == "latent":
        if rules.cache_format == "fp8_ds_mla":
            return SPARSE_LATENT_BYTES
        return tensor_bytes((attention.latent_width,), rules.cache_format)
    width = attention.key_head_dim + attention.value_head_dim
    return tensor_bytes((kv_heads_on_rank(attention, rules.tensor_parallel) * width,), rules.cache_format)


def _state_bytes(state: State, architecture: Architecture, rules: PageRules) -> int:
    """Bytes of one sequence's state in one layer on one rank."""
    recurrent = rules.state_format or (
        "fp32" if architecture.model_type.startswith(FP32_STATE_TYPES) else rules.model_format
    )
    total = 0
    for part in state.parts:
        kept = rules.model_format if part.dtype is None else recurrent
        total += -(-tensor_bytes(part.shape, kept) // rules.tensor_parallel)
    return total


def _block_size(kinds: Counter[tuple[PageKind, int | None, int]], state_bytes: int, rules: PageRules) -> int:
    """Tokens of a block: as stated, or as many as a state needs to fit in the attention page."""
    if not state_bytes or not kinds:
        return rules.block_size
    largest = max(token for _, _, token in kinds)
    needed = -(-state_bytes // largest)
    multiple = max(STATE_BLOCK_MULTIPLE, rules.block_size if rules.block_size < needed else STATE_BLOCK_MULTIPLE)
    return max(rules.block_size, -(-needed // multiple) * multiple)


def _equal_pages(pages: list[Page]) -> list[Page]:
    """Pages of one size: a smaller one takes a multiple of the block, when it divides the largest."""
    largest = max(page.page_bytes for page in pages)
    return [
        page
        if page.page_bytes == largest or largest % page.page_bytes
        else msgspec.structs.replace(
            page, page_bytes=largest, block_size=page.block_size * (largest // page.page_bytes)
        )
        for page in pages
    ]


def _grouped(pages: list[Page], kept: tuple[Kept, ...], rules: PageRules) -> Pool:
    version = rules.version
    one_kind = len({(page.kind, page.window) for page in pages}) == 1
    counts_concurrency = version.is_at_least(0, 21, 0)
    caches_prefixes = rules.caches_prefixes and version.is_at_least(0, 14, 0)
    if one_kind:
        merged = msgspec.structs.replace(pages[0], layers=sum(page.layers for page in pages))
        return Pool(
            pages=(merged,),
            kept=kept,
            group_layers=merged.layers,
            groups=1,
            block_bytes=sum(page.page_bytes * page.layers for page in pages),
            block_size=merged.block_size,
            counts_concurrency=counts_concurrency,
            caches_prefixes=caches_prefixes,
            counts_whole_tokens=version.is_v1,
        )
    counts = [page.layers for page in pages]
    group = min(counts)
    if version.is_at_least(0, 12, 0) and max(counts) < 1.5 * group:
        group = max(counts)
    return Pool(
        pages=tuple(pages),
        kept=kept,
        group_layers=group,
        groups=sum(-(-count // group) for count in counts),
        block_bytes=group * max(page.page_bytes for page in pages),
        block_size=min(page.block_size for page in pages),
        counts_concurrency=counts_concurrency,
        caches_prefixes=caches_prefixes,
        counts_whole_tokens=version.is_v1,
    )


def _blocks(page: Page, tokens: int, batched: int, caches_prefixes: bool) -> int:
    """Blocks that one sequence needs in one group of this kind."""
    if page.kind == "state":
        return 2 if caches_prefixes else 1
    if page.kind == "full" or page.window is None:
        return -(-tokens // page.block_size)
    if page.kind == "capped":
        return -(-min(page.window, tokens) // page.block_size)
    if page.kind == "chunked":
        return -(-min(page.window + batched, tokens) // page.block_size)
    return -(-min(page.window - 1 + batched, tokens) // page.block_size) + 1
