"""Loading: each weight comes to the GPU as its file has it, and what quantises it stands beside it for a moment.

Legend: n elements of a matrix, b = ceil(n / 64) blocks of bitsandbytes' 4 bit.
    plain, GPTQ, AWQ   the tensors as they are held
    4 bit              2 n (the weight) + 4 b (scales in fp32), then the packed codes; with double quantisation the
                       scales are narrowed; weight and wide scales go
    8 bit              2 n, then the codes and 4 B a row; the weight goes
    widening           the wide copy of a tensor stands beside the narrow one until it is made
A freed block may be too large for what takes it, and by too little to be split: up to 1 MiB that the allocator counts
and nothing uses. The blocks above 1 MiB are run through the allocator to see it; those below are always split.
From transformers 4.50 on the memory is taken once before (`caching_allocator_warmup`), and nothing is left over.
Sources: transformers 4.48 modeling_utils.py, 5.24 core_model_loading.py; bitsandbytes 0.43 functional.py; c10's
CUDACachingAllocator.cpp (should_split); fms rows of santacoder: 28.25 MiB computed, 28.8 and 30.6 measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from capienza.allocator.allocator import Allocator
from capienza.allocator.blocks import Block
from capienza.allocator.events import ALLOC, FREE, Event
from capienza.allocator.settings import Settings
from capienza.allocator.sizes import SMALL_SIZE, rounded_bytes
from capienza.architecture.model import Architecture
from capienza.formats.scheme import Scheme, stored
from capienza.formats.tensor import Tensor
from capienza.predict.training.base import is_packed, is_widened, resident_dtype, scheme_of
from capienza.predict.training.modules import Piece, pieces
from capienza.predict.training.releases import release
from capienza.recipe.recipe import Recipe

WARMED_UP_SINCE = (4, 50)
SHARD_BYTES = 5 * 10**9
"""Larger models lie in several files, whose order is that of the layers; one file's is alphabetical."""
BLOCK_4BIT = 64


class Loading(msgspec.Struct, frozen=True, kw_only=True):
    """`peak_bytes` is the most that was allocated, `slack_bytes` what blocks hold beyond their tensors at the end."""

    peak_bytes: int
    slack_bytes: int


class _Gpu:
    """What is allocated: large blocks by the allocator's rules, small ones by their sum."""

    def __init__(self, *, has_slack: bool) -> None:
        self.allocator = Allocator(Settings()) if has_slack else None
        self.allocated = self.peak = self.slack = 0

    def take(self, size: int) -> int | Block:
        rounded = rounded_bytes(size)
        block: int | Block = rounded
        if self.allocator is not None and rounded > SMALL_SIZE:
            taken = self.allocator.allocate(size, 0)
            assert taken is not None  # there is no limit here
            block, self.slack = taken, self.slack + taken.size - rounded
            rounded = taken.size
        self.allocated += rounded
        self.peak = max(self.peak, self.allocated)
        return block

    def give(self, block: int | Block) -> None:
        if isinstance(block, int):
            self.allocated -= block
            return
        self.allocated -= block.size
        self.slack -= block.size - rounded_bytes(block.requested)
        assert self.allocator is not None
        self.allocator.free(block)


def loading(architecture: Architecture, recipe: Recipe, scheme: Scheme | None = None) -> Loading:
    """The load of one model on one GPU. Raises `InputError` for a matrix that the format cannot pack."""
    scheme = scheme_of(recipe, scheme)
    gpu = _Gpu(has_slack=scheme is not None and release(recipe, "transformers") < WARMED_UP_SINCE)
    blocks: dict[int, int | Block] = {}
    for code, block, size, _ in load_events(architecture, recipe, scheme):
        if code == ALLOC:
            blocks[block] = gpu.take(size)
        else:
            gpu.give(blocks.pop(block))
    return Loading(peak_bytes=gpu.peak, slack_bytes=gpu.slack)


def load_events(architecture: Architecture, recipe: Recipe, scheme: Scheme | None) -> Iterator[Event]:
    """The allocator's events of the load; blocks are numbered from 0, and what stays is not given back.

    Raises `InputError` for a matrix that the format cannot pack.
    """
    dtype, numbers = resident_dtype(recipe), itertools.count()
    is_made = scheme is not None and scheme.method == "bitsandbytes"
    wide: list[tuple[int, int]] = []
    parts_of: dict[tuple[object, ...], tuple[Tensor, ...]] = {}
    for one in _in_order(pieces(architecture, recipe)):
        key = one.shape, one.role, one.module, one.name if scheme is not None and scheme.rules else ""
        parts = parts_of.get(key)
        if parts is None:
            parts = stored(one.name, one.shape, one.role, scheme, dtype, transposed=one.transposed)
            parts_of[key] = parts
        for _ in range(one.count):
            if is_made and is_packed(parts, dtype):
                yield from _quantised(numbers, one.elements, parts)
                continue
            for part in parts:
                block = next(numbers)
                yield ALLOC, block, part.bytes, 0
            if is_widened(one, recipe) and len(parts) == 1:
                wide.append((block, 4 * one.elements))
    for narrow, size in wide:
        yield ALLOC, next(numbers), size, 0
        yield FREE, narrow, 0, 0


def _quantised(numbers: Iterator[int], elements: int, parts: tuple[Tensor, ...]) -> Iterator[Event]:
    weight, scales = next(numbers), None
    yield ALLOC, weight, 2 * elements, 0
    if any(part.name.endswith("nested_absmax") for part in parts):
        scales = next(numbers)
        yield ALLOC, scales, 4 * -(-elements // BLOCK_4BIT), 0
    for part in parts:
        yield ALLOC, next(numbers), part.bytes, 0
    if scales is not None:
        yield FREE, scales, 0, 0
    yield FREE, weight, 0, 0


def _in_order(made: tuple[Piece, ...]) -> Iterator[Piece]:
    """As the files have them."""
    total = sum(2 * one.count * one.elements for one in made)
    if total <= SHARD_BYTES:
        yield from sorted(made, key=lambda one: one.name)
        return
    first = -1
    last = 1 + max((one.layer for one in made if one.layer is not None), default=0)
    yield from sorted(
        made,
        key=lambda one: (one.layer if one.layer is not None else first if one.role == "embedding" else last, one.name),
    )
