"""What reductions and normalisations take besides their results.

A reduction that gives each block of threads too much to do is cut further: see `allocator.reductions`.
Softmax, layer norm and RMS norm read contiguous operands: others are copied (SoftMax.cu, layer_norm_kernel.cu).
Backward of layer norm and RMS norm over more than 65536 short rows sums them in parts first (layer_norm_kernel.cu,
`LaunchGammaBetaBackwardCUDAKernel`, since about 2.8).
The norms of many tensors meet in one number for every 65536 elements of the longest (ForeachReduceOp.cu).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from capienza.allocator.reductions import buffer_bytes
from capienza.errors import phrase
from capienza.trace.kernels_call import Asked, Card, Rule, ScratchRow, Table, ceiling, copied, is_in_order

BUFFER = phrase("reduction: buffer between blocks")
COUNTERS = phrase("reduction: counters of blocks that are done")
NORMS = phrase("norms: one number for every 65536 elements")
NORM_PARTS = phrase("norm: sums of the parts of weight and bias")
GROUP_SCALE = phrase("group norm: scale and shift of each channel")
GROUP_SUMS = phrase("group norm: sums of each channel")

WARP = 32
FP32_BYTES = 4
CHUNK = 65536
MANY_ROWS, ROWS_A_PART, MOST_PARTS = 65536, 32, 32768
PARTS_SINCE = (2, 8)
SOURCE = "Reduce.cuh, setReduceConfig"


def _buffers(
    outputs: int, inputs: int, on_fastest: bool, one_axis: bool, item_bytes: int, card: Card
) -> tuple[int, int]:
    return buffer_bytes(
        outputs,
        inputs,
        on_fastest=on_fastest,
        one_axis=one_axis,
        item_bytes=item_bytes,
        processors=card.processors,
        threads_a_processor=card.threads_a_processor,
    )


def _reduction(axes_at: int, item_bytes: int = FP32_BYTES) -> Rule:
    def rule(asked: Asked) -> Iterable[ScratchRow]:
        tensor = asked.at(0)
        if not tensor.numel() or not tensor.dim():
            return
        axes = _axes(asked.at(axes_at, "dim"), tensor.dim())
        inputs = math.prod(tensor.shape[axis] for axis in axes)
        fastest = min((axis for axis in range(tensor.dim()) if tensor.shape[axis] > 1), key=tensor.stride, default=0)
        item = max(item_bytes, tensor.dtype.itemsize)
        buffer, counters = _buffers(
            tensor.numel() // inputs,
            inputs,
            len(axes) == tensor.dim() or fastest in axes,
            _merge(tensor, axes),
            item,
            asked.card,
        )
        if buffer:
            exact = bool(asked.card.multiprocessors)
            yield ScratchRow(BUFFER, buffer, SOURCE, verified=exact)
            yield ScratchRow(COUNTERS, counters, SOURCE, verified=exact)

    return rule


def _axes(asked: Any, dimensions: int) -> Sequence[int]:
    if asked is None or asked == []:
        return range(dimensions)
    return [axis % dimensions for axis in (asked if isinstance(asked, (list, tuple)) else [asked])]


def _merge(tensor: Any, axes: Sequence[int]) -> bool:
    """Do the reduced dimensions lie as one?"""
    return is_in_order(tensor.shape, tensor.stride()) and list(axes) == list(range(min(axes), max(axes) + 1))


def _contiguous(source: str, *positions: int) -> Rule:
    def rule(asked: Asked) -> Iterable[ScratchRow]:
        for position in positions:
            yield from copied(asked.at(position), source)

    return rule


def _norm_backward(weight_at: int, has_bias: bool) -> Rule:
    source = "layer_norm_kernel.cu"

    def rule(asked: Asked) -> Iterable[ScratchRow]:
        tensor, weight = asked.at(1), asked.at(weight_at)
        yield from copied(asked.at(0), source)
        yield from copied(tensor, source)
        if weight is None or not weight.numel() or asked.card.torch < PARTS_SINCE:
            return
        width = weight.numel()
        rows = tensor.numel() // width
        if rows > MANY_ROWS and width // WARP < asked.card.processors // 2:
            parts = min(ceiling(rows, ROWS_A_PART), MOST_PARTS // ceiling(width, WARP))
            size = parts * width * weight.dtype.itemsize * (2 if has_bias else 1)
            yield ScratchRow(NORM_PARTS, size, source, verified=bool(asked.card.multiprocessors))
            buffer, counters = _buffers(width, parts, False, True, FP32_BYTES, asked.card)
            if buffer:
                yield ScratchRow(BUFFER, buffer, SOURCE, verified=False)
                yield ScratchRow(COUNTERS, counters, SOURCE, verified=False)

    return rule


def _norms(asked: Asked) -> Iterable[ScratchRow]:
    tensors = asked.at(0)
    if tensors:
        chunks = ceiling(max(tensor.numel() for tensor in tensors), CHUNK)
        size = len(tensors) * chunks * FP32_BYTES
        yield ScratchRow(NORMS, size, "ForeachReduceOp.cu")


def _group_norm(asked: Asked) -> Iterable[ScratchRow]:
    batch, channels = asked.at(3, "N"), asked.at(4, "C")
    size = 2 * batch * channels * FP32_BYTES
    yield ScratchRow(GROUP_SCALE, size, "group_norm_kernel.cu", verified=False)


def _group_norm_backward(asked: Asked) -> Iterable[ScratchRow]:
    batch, channels = asked.at(5, "N"), asked.at(6, "C")
    size = 3 * batch * channels * FP32_BYTES
    yield ScratchRow(GROUP_SUMS, size, "group_norm_kernel.cu", verified=False)


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
    "aten.native_layer_norm_backward": _norm_backward(5, has_bias=True),
    "aten._fused_rms_norm": _contiguous("layer_norm_kernel.cu", 0),
    "aten._fused_rms_norm_backward": _norm_backward(4, has_bias=False),
    "aten.native_group_norm": _group_norm,
    "aten.native_group_norm_backward": _group_norm_backward,
}
