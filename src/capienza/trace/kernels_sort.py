"""What sorting, selecting and indexing take besides their results.

n elements along the sorted dimension, m slices of them. Sources: native/cuda/Sort.cpp (commit 07e6f4ac), SortStable.cu
(061531e8), Sort.h, cub.cuh and cub-RadixSortPairs.cuh (2.13.0, in the wheel), EmbeddingBackwardKernel.cu (about 2.13,
lines 290-400), Embedding.cu (lines 242-330), Indexing.cu (`index_put_with_sort_kernel`), Distributions.cpp,
TensorTopK.cu (`should_use_multiblock` and `mbtopk`) and TensorTopK.cpp (0a844011).
The temporary storage of CUB's radix sort is not in PyTorch's source. It holds keys and values once more, and counters:
a recording of a real card has 72191 bytes for 4096 pairs of 16 bytes, and 1 byte for up to 2048 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from capienza.errors import phrase
from capienza.trace.kernels_call import Asked, ScratchRow, Table, copied, is_in_order

LONG_BYTES, FP32_BYTES, INT_BYTES = 8, 4, 4
SMALL_SORT, SINGLE_SORT, FEW_SLICES = 4096, 1_000_000, 128
FEW_INDICES, ROWS_A_THREAD = 3072, 10
SCAN_TILE, SCAN_STATE_BYTES = 1024, 16
TOPK_BLOCK, TOPK_BLOCK_BYTES = 1024, 256 * 2 + 2 * 4
LONG_SLICES = ((20, 20_000), (40, 10_000), (80, 8000), (199, 5000), (799, 3000), (4000, 800), (math.inf, 400))
ONE_TILE, RADIX_COUNTERS_BYTES = 2048, 72191 - 4096 * 16

RADIX = phrase("radix sort: keys and values once more")
POSITIONS = phrase("sort: positions")
TURNED = phrase("sort: operand with its dimension last")
PAIRS = phrase("sort: positions and slices, twice")
KEYS = phrase("sort: keys")
TOPK = phrase("topk: counters of the blocks")
CHOSEN = phrase("topk: chosen values and positions, sorted")
RANDOM = phrase("multinomial: random numbers")
SORTED_INDICES = phrase("embedding: sorted indices and their order")
PARTS = phrase("embedding: where the parts begin")
SUMS = phrase("embedding: sums of the parts")
PUT_POSITIONS = phrase("index_put: positions, sorted, and their order")
PUT_VALUES = phrase("index_put: values, spread")
SCAN = phrase("scan: state of the tiles")
UNIQUE = phrase("unique: sorted values and positions")


def _radix(count: int, item_bytes: int, source: str) -> Iterator[ScratchRow]:
    if count > ONE_TILE:
        yield ScratchRow(RADIX, count * item_bytes + RADIX_COUNTERS_BYTES, f"{source}; CUB", verified=False)


def _sorted(tensor: Any, axis: int) -> Iterator[ScratchRow]:
    if tensor.dim() == 0:
        return
    in_order = is_in_order(tensor.shape, tensor.stride()) and tensor.stride(axis) == 1
    yield from _sorted_slices(tensor.shape[axis], tensor.numel(), tensor.dtype.itemsize, in_order)


def _sorted_slices(count: int, total: int, item: int, in_order: bool) -> Iterator[ScratchRow]:
    if not total:
        return
    if count <= SMALL_SORT:
        yield ScratchRow(POSITIONS, count * LONG_BYTES, "Sort.cpp, fillSliceWithIndex")
        return
    if not in_order:
        yield ScratchRow(TURNED, total * item, "Sort.cpp")
    slices = total // count
    if slices == 1 or count >= SINGLE_SORT:
        yield ScratchRow(POSITIONS, count * LONG_BYTES, "SortStable.cu, segmented_sort_large_segments")
        yield from _radix(count, item + LONG_BYTES, "SortStable.cu")
    elif slices < FEW_SLICES:
        source = "SortStable.cu, segmented_sort_pairs_by_full_sort"
        yield ScratchRow(PAIRS, 2 * total * LONG_BYTES, source)
        yield ScratchRow(KEYS, total * item, source)
        yield from _radix(total, item + LONG_BYTES, "SortStable.cu")
    else:
        yield ScratchRow(POSITIONS, total * LONG_BYTES, "SortStable.cu, segmented_sort_pairs")
        yield from _radix(total, item + LONG_BYTES, "SortStable.cu")


def _sort(asked: Asked) -> Iterable[ScratchRow]:
    return _sorted(asked.at(0), asked.at(1, "dim", -1))


def _stable_sort(asked: Asked) -> Iterable[ScratchRow]:
    return _sorted(asked.at(0), asked.named.get("dim", -1))


def _topk(asked: Asked) -> Iterable[ScratchRow]:
    """Long slices are counted in blocks, of 1024 elements at least; more than 4096 chosen values are sorted after."""
    tensor, chosen, axis = asked.at(0), asked.at(1, "k", 1), asked.at(2, "dim", -1)
    if not chosen or not tensor.dim() or not tensor.numel():
        return
    source = "TensorTopK.cu, mbtopk"
    yield from copied(tensor, source)
    count = tensor.shape[axis]
    slices, item = tensor.numel() // count, tensor.dtype.itemsize
    if count >= next(least for most, least in LONG_SLICES if slices <= most):
        size = slices * (item + 3 * INT_BYTES + -(-count // TOPK_BLOCK) * TOPK_BLOCK_BYTES)
        yield ScratchRow(TOPK, size, source, verified=False)
    if chosen > SMALL_SORT and asked.at(4, "sorted", True):
        total = slices * chosen
        yield ScratchRow(CHOSEN, total * (item + 2 * LONG_BYTES), "TensorTopK.cpp")
        yield from _sorted_slices(chosen, total, item, axis in (-1, tensor.dim() - 1))


def _multinomial(asked: Asked) -> Iterable[ScratchRow]:
    weights, count = asked.at(0), asked.at(1, "num_samples", 1)
    if count == 1 or not asked.at(2, "replacement", False):
        size = weights.numel() * weights.dtype.itemsize
        yield ScratchRow(RANDOM, size, "Distributions.cpp, multinomial_out")


def _embedding_backward(asked: Asked) -> Iterable[ScratchRow]:
    """Indices are sorted, and rows of one index summed in parts of ten, in fp32."""
    gradient, indices, rows = asked.at(0), asked.at(1), asked.at(2)
    yield from copied(gradient, "Embedding.cu")
    count, item = indices.numel(), indices.dtype.itemsize
    if count <= FEW_INDICES and not asked.at(4, "scale_grad_by_freq", False):
        return
    width = gradient.shape[-1]
    most = min(count, rows)
    parts = count // ROWS_A_THREAD + most
    source = "EmbeddingBackwardKernel.cu"
    accumulated = FP32_BYTES if gradient.dtype.itemsize < FP32_BYTES else gradient.dtype.itemsize
    yield ScratchRow(SORTED_INDICES, 2 * count * item, "Embedding.cu")
    yield ScratchRow(PARTS, (count + 2 * most + parts) * item + 2 * LONG_BYTES, source)
    yield ScratchRow(SUMS, parts * width * accumulated, source)


def _index_put(asked: Asked) -> Iterable[ScratchRow]:
    """Only what adds to its target is sorted."""
    target, indices, values = asked.at(0), asked.at(1), asked.at(2)
    if not (asked.at(3, "accumulate", False) or asked.deterministic):
        return
    shapes = [tuple(index.shape) for index in indices if index is not None]
    count = math.prod(_spread(shapes)) if shapes else 0
    source = "Indexing.cu, index_put_with_sort_kernel"
    yield from copied(target, source)
    yield ScratchRow(PUT_POSITIONS, 4 * count * LONG_BYTES, source)
    written = count * math.prod(target.shape[len(indices) :])
    if values.numel() != written or not is_in_order(values.shape, values.stride()):
        yield ScratchRow(PUT_VALUES, written * values.dtype.itemsize, source)
    yield from _radix(count, 2 * LONG_BYTES, source)


def _spread(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    longest = max(len(shape) for shape in shapes)
    filled = [(1,) * (longest - len(shape)) + shape for shape in shapes]
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*filled, strict=True))


def _scan(asked: Asked) -> Iterable[ScratchRow]:
    """A scan of one long row keeps the state of every tile; others work in place."""
    tensor = asked.at(0)
    if tensor.dim() and tensor.numel() == tensor.shape[asked.at(1, "dim", -1)] and tensor.numel():
        size = (tensor.numel() // SCAN_TILE + 1) * SCAN_STATE_BYTES
        yield ScratchRow(SCAN, size, "cub.cuh, inclusive_scan; CUB", verified=False)


def _unique(_asked: Asked) -> Iterable[ScratchRow]:
    yield ScratchRow(UNIQUE, None, "UniqueCub.cu", verified=False)


TABLE: Table = {
    "aten.sort": _sort,
    "aten.sort.stable": _stable_sort,
    "aten.argsort": _sort,
    "aten.topk": _topk,
    "aten.multinomial": _multinomial,
    "aten.embedding_dense_backward": _embedding_backward,
    "aten.index_put": _index_put,
    "aten.index_put_": _index_put,
    "aten._index_put_impl_": _index_put,
    "aten.cumsum": _scan,
    "aten.cumprod": _scan,
    "aten._unique2": _unique,
    "aten.unique_dim": _unique,
    "aten.unique_consecutive": _unique,
}
