"""Operations whose fake kernel refuses what the real ones take, or gives a result laid out in another way.

Each entry says where the real kernel can be read. Found by setting a trace beside a real run, operation by operation.
"""

from __future__ import annotations

from typing import Any

import torch

from capienza.trace.tracker import HANDLERS, Tracker

aten = torch.ops.aten
ROW_BYTES = 16
"""Rows of a grouped product begin at multiples of this (`create_grouped_gemm_output_tensor`, GroupedMMUtils.h)."""


def grouped_product(_tracker: Tracker, _func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """`_grouped_mm` of any type; its fake kernel takes bf16 only.

    [rows, k] x [groups, k, n] -> [rows, n]; [m, k] x [k, n] -> [groups, m, n]; [groups, m, k] x [k, n] -> [m, n].
    """
    left, right = args[0], args[1]
    offsets: Any = args[2] if len(args) > 2 else kwargs.get("offs")
    dtype = kwargs.get("out_dtype") or left.dtype
    columns = right.shape[-1]
    row = -(-columns * dtype.itemsize // ROW_BYTES) * ROW_BYTES // dtype.itemsize
    if left.dim() == right.dim():
        groups = left.shape[0] if left.dim() == 3 else offsets.shape[0]
        size, strides = [groups, left.shape[-2], columns], [left.shape[-2] * row, row, 1]
    else:
        size, strides = [left.shape[-2], columns], [row, 1]
    made: torch.Tensor = aten.empty_strided.default(size, strides, dtype=dtype, device=left.device)
    return made


def normed_backward(_tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`native_layer_norm_backward`: the gradient of the input is contiguous, whatever the input (layer_norm.cpp)."""
    found = func(*args, **kwargs)
    gradient = found[0]
    if gradient is None or gradient.is_contiguous():
        return found
    return (torch.empty_like(gradient, memory_format=torch.contiguous_format), *found[1:])


def batch_normed_backward(_tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`native_batch_norm_backward`: no gradient is made that is not asked for (Normalization.cpp, Normalization.cu)."""
    found = func(*args, **kwargs)
    asked = kwargs.get("output_mask", args[-1])
    return tuple(one if wanted else None for one, wanted in zip(found, asked, strict=True))


HANDLERS.update(
    {
        aten.native_batch_norm_backward.default: batch_normed_backward,
        aten._grouped_mm.default: grouped_product,
        aten.native_layer_norm_backward.default: normed_backward,
    }
)
