"""What reductions and normalisations take besides their results.

A reduction that gives each block of threads too little to do is cut further: the blocks of one output meet in a buffer.
`buffer_bytes` follows `setReduceConfig` of native/cuda/Reduce.cuh (2.13.0, in the wheel), lines 62-215 and 1040-1196.
Softmax, layer norm and RMS norm read contiguous operands: others are copied (SoftMax.cu, layer_norm_kernel.cu).
The norms of many tensors meet in one number for every 65536 elements of the longest (ForeachReduceOp.cu).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from capienza.trace.kernels_call import Asked, Card, Rule, ScratchRow, Table, ceiling, copied, is_in_order

MOST_THREADS, WARP = 512, 32
FEWEST_VALUES, MOST_VALUES = 16, 256
INPUT_VECTOR, LEAST_VECTORISED = 4, 128
FP32_BYTES, INT_BYTES = 4, 4
CHUNK = 65536
SOURCE = "Reduce.cuh, setReduceConfig"


def buffer_bytes(outputs: int, inputs: int, on_fastest: bool, one_axis: bool, item_bytes: int, card: Card) -> int:
    """The buffer in which blocks of threads meet, in bytes; 0 where every output is of one block.

    `inputs` are reduced to each of `outputs`; `on_fastest` where the reduced dimension is the one whose elements lie
    beside each other; `item_bytes` of an accumulator.
    """
    vector = 1
    first, second = (inputs, outputs) if on_fastest else (outputs, inputs)
    if on_fastest and first >= LEAST_VECTORISED and one_axis:
        first //= INPUT_VECTOR
    elif not on_fastest:
        vector = math.gcd(outputs, 4)
        first //= vector
    width, height = _block(first, second, MOST_THREADS // vector)
    step_in, step_out = (width, 1) if on_fastest else (1, width)
    split = ceiling(inputs, step_in) >= min(height * 16, MOST_VALUES)
    step_in, step_out = (step_in * height, step_out) if split else (step_in, step_out * height)
    values = ceiling(inputs, step_in)
    grid = ceiling(outputs // vector, step_out)
    target = card.processors * (card.threads_a_processor // (width * height))
    if not (split and values >= MOST_VALUES and grid <= target):
        return 0
    blocks = max(min(ceiling(target, max(grid, 1)), ceiling(values, FEWEST_VALUES)), ceiling(values, MOST_VALUES))
    if blocks <= 1:
        return 0
    size = item_bytes * outputs * blocks * (1 if on_fastest else width * vector)
    return size + INT_BYTES * grid


def _block(first: int, second: int, most: int) -> tuple[int, int]:
    first, second = (most if size >= most else 1 << (max(size, 1).bit_length() - 1) for size in (first, second))
    height = min(second, most // min(first, WARP))
    return min(first, most // height), height


def _reduction(axes_at: int, item_bytes: int = FP32_BYTES) -> Rule:
    def rule(asked: Asked) -> Iterable[ScratchRow]:
        tensor = asked.at(0)
        if not tensor.numel() or not tensor.dim():
            return
        axes = _axes(asked.at(axes_at, "dim"), tensor.dim())
        inputs = math.prod(tensor.shape[axis] for axis in axes)
        fastest = min((axis for axis in range(tensor.dim()) if tensor.shape[axis] > 1), key=tensor.stride, default=0)
        item = max(item_bytes, tensor.dtype.itemsize)
        size = buffer_bytes(
            tensor.numel() // inputs,
            inputs,
            len(axes) == tensor.dim() or fastest in axes,
            _merge(tensor, axes),
            item,
            asked.card,
        )
        if size:
            yield ScratchRow(
                "reduction: buffer between blocks", size, SOURCE, verified=bool(asked.card.multiprocessors)
            )

    return rule


def _axes(asked: Any, dimensions: int) -> Sequence[int]:
    if asked is None or asked == []:
        return range(dimensions)
    return [axis % dimensions for axis in (asked if isinstance(asked, (list, tuple)) else [asked])]


def _merge(tensor: Any, axes: Sequence[int]) -> bool:
    """Do the reduced dimensions lie as one?"""
    return is_in_order(tensor.shape, tensor.stride()) and list(axes) == list(range(min(axes), max(axes) + 1))


def _contiguous(what: str, *positions: int) -> Rule:
    def rule(asked: Asked) -> Iterable[ScratchRow]:
        for position in positions:
            yield from copied(asked.at(position), f"{what}: operand", what)

    return rule


def _norms(asked: Asked) -> Iterable[ScratchRow]:
    tensors = asked.at(0)
    if tensors:
        chunks = ceiling(max(tensor.numel() for tensor in tensors), CHUNK)
        size = len(tensors) * chunks * FP32_BYTES
        yield ScratchRow("norms: one number for every 65536 elements", size, "ForeachReduceOp.cu", verified=False)


def _group_norm(asked: Asked) -> Iterable[ScratchRow]:
    batch, channels = asked.at(3, "N"), asked.at(4, "C")
    size = 2 * batch * channels * FP32_BYTES
    yield ScratchRow("group norm: scale and shift of each channel", size, "group_norm_kernel.cu", verified=False)


def _group_norm_backward(asked: Asked) -> Iterable[ScratchRow]:
    batch, channels = asked.at(5, "N"), asked.at(6, "C")
    size = 3 * batch * channels * FP32_BYTES
    yield ScratchRow("group norm: sums of each channel", size, "group_norm_kernel.cu", verified=False)


TABLE: Table = {
    "aten.sum.default": _reduction(9),
    "aten.sum.dim_IntList": _reduction(1),
    "aten.mean.default": _reduction(9),
    "aten.mean.dim": _reduction(1),
    "aten.amax": _reduction(1),
    "aten.amin": _reduction(1),
    "aten.max.default": _reduction(9),
    "aten.max.dim": _reduction(1),
    "aten.min.default": _reduction(9),
    "aten.min.dim": _reduction(1),
    "aten.linalg_vector_norm": _reduction(2),
    "aten._foreach_norm.Scalar": _norms,
    "aten._foreach_max": _norms,
    "aten._softmax": _contiguous("SoftMax.cu", 0),
    "aten._log_softmax": _contiguous("SoftMax.cu", 0),
    "aten._softmax_backward_data": _contiguous("SoftMax.cu", 0, 1),
    "aten._log_softmax_backward_data": _contiguous("SoftMax.cu", 0, 1),
    "aten.native_layer_norm": _contiguous("layer_norm_kernel.cu", 0),
    "aten.native_layer_norm_backward": _contiguous("layer_norm_kernel.cu", 0, 1),
    "aten._fused_rms_norm": _contiguous("layer_norm_kernel.cu", 0),
    "aten._fused_rms_norm_backward": _contiguous("layer_norm_kernel.cu", 0, 1),
    "aten.native_group_norm": _group_norm,
    "aten.native_group_norm_backward": _group_norm_backward,
}
