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


def loading(
    architecture: Architecture,
    recipe: Recipe,
    scheme: Scheme | None = None,
    made: tuple[Piece, ...] | None = None,
) -> Loading:
    """The load of one model on one GPU; `made` are the model's pieces, where the caller has them.

    Raises `InputError` for a matrix that the format cannot pack.
    """
    scheme = scheme_of(recipe, scheme)
    made = pieces(architecture, recipe) if made is None else made
    slack = 0
    if scheme is not None and release(recipe, "transformers") < WARMED_UP_SINCE:
        slack = _slack(load_events(architecture, recipe, scheme))
    held = peak = 0
    wide: list[int] = []
    sizes: dict[tuple[object, ...], tuple[int, int, int]] = {}
    for one in _in_order(made) if looks_at_order(recipe, scheme) else made:
        key = _kind(one, scheme)
        if key not in sizes:
            sizes[key] = _sizes(one, recipe, scheme)
        stays, passing, widened = sizes[key]
        held += one.count * stays
        if held + passing > peak:
            peak = held + passing
        if widened:
            wide += [widened] * one.count
    for elements in wide:
        peak = max(peak, held + rounded_bytes(4 * elements))
        held += rounded_bytes(4 * elements) - rounded_bytes(2 * elements)
    return Loading(peak_bytes=peak + slack, slack_bytes=slack)


def looks_at_order(recipe: Recipe, scheme: Scheme | None) -> bool:
    """Is anything made or widened on the way, so that it matters what is there by then?"""
    return _is_made(scheme) or recipe.precision.widens_rest or recipe.precision.widens_norms


def _sizes(one: Piece, recipe: Recipe, scheme: Scheme | None) -> tuple[int, int, int]:
    """Bytes that stay of a piece, bytes beside it while it is made, and its elements if it is widened later."""
    dtype, elements = resident_dtype(recipe), one.elements
    parts = stored(one.name, one.shape, one.role, scheme, dtype, transposed=one.transposed)
    packed = is_packed(parts, dtype)
    beside = _beside(elements, parts) if packed and _is_made(scheme) else ()
    stays, passing = (sum(map(rounded_bytes, sizes)) for sizes in ((part.bytes for part in parts), beside))
    return stays, passing, elements if not packed and is_widened(one, recipe) else 0


def _slack(events: Iterator[Event]) -> int:
    """What blocks above 1 MiB hold at the end beyond what was asked for."""
    allocator, blocks = Allocator(Settings()), dict[int, Block]()
    for code, number, size, _ in events:
        if code == ALLOC:
            if rounded_bytes(size) > SMALL_SIZE:
                taken = allocator.allocate(size, 0)
                assert taken is not None  # there is no limit here
                blocks[number] = taken
        elif number in blocks:
            allocator.free(blocks.pop(number))
    return sum(block.size - rounded_bytes(block.requested) for block in blocks.values())


def _is_made(scheme: Scheme | None) -> bool:
    """Is the quantisation made while loading?"""
    return scheme is not None and scheme.method == "bitsandbytes"


def _kind(one: Piece, scheme: Scheme | None) -> tuple[object, ...]:
    """Pieces of a kind are held alike."""
    return one.shape, one.name if scheme is not None and scheme.rules else one.kind


def _beside(elements: int, parts: tuple[Tensor, ...]) -> tuple[int, ...]:
    """What stands beside the codes while they are made: the weight, and the wide scales that are narrowed."""
    if any(part.name.endswith("nested_absmax") for part in parts):
        return 2 * elements, 4 * -(-elements // BLOCK_4BIT)
    return (2 * elements,)


def load_events(architecture: Architecture, recipe: Recipe, scheme: Scheme | None, first: int = 0) -> Iterator[Event]:
    """The allocator's events of the load; blocks are numbered from `first`, and what stays is not given back.

    Raises `InputError` for a matrix that the format cannot pack.
    """
    dtype, numbers, is_made = resident_dtype(recipe), itertools.count(first), _is_made(scheme)
    wide: list[tuple[int, int]] = []
    parts_of: dict[tuple[object, ...], tuple[Tensor, ...]] = {}
    for one in _in_order(pieces(architecture, recipe)):
        key = _kind(one, scheme)
        if key not in parts_of:
            parts_of[key] = stored(one.name, one.shape, one.role, scheme, dtype, transposed=one.transposed)
        parts = parts_of[key]
        for _ in range(one.count):
            taken = []
            if is_made and is_packed(parts, dtype):
                for size in _beside(one.elements, parts):
                    taken.append(next(numbers))
                    yield ALLOC, taken[-1], size, 0
            for part in parts:
                block = next(numbers)
                yield ALLOC, block, part.bytes, 0
            for block in reversed(taken):
                yield FREE, block, 0, 0
            if not taken and is_widened(one, recipe) and not is_packed(parts, dtype):
                wide.append((block, 4 * one.elements))
    for narrow, size in wide:
        yield ALLOC, next(numbers), size, 0
        yield FREE, narrow, 0, 0


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
