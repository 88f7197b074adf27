"""`rms_norm` as a build with CUDA runs it: one kernel, which keeps its input and a factor a row for its backward pass.

A build without CUDA has no such kernel: it takes the norm apart into operations that keep five results. Sources:
aten/src/ATen/native/layer_norm.cpp (`rms_norm_symint` calls the fused kernel unless the weight is of another type, the
layout is channels-last or numbers are complex), native/cuda/layer_norm_kernel.cu (`_fused_rms_norm_cuda` and its
backward), tools/autograd/derivatives.yaml.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from capienza.trace.tracker import HANDLERS, Tracker

aten = torch.ops.aten
OPERATOR = "_fused_rms_norm"
HALF = (torch.float16, torch.bfloat16)


@contextlib.contextmanager
def fused_on_cuda() -> Iterator[None]:
    """Inside, an RMS norm of fake tensors on `cuda` is one operation, and so is its backward pass."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{OPERATOR}", "AutogradCUDA"):
        yield
        return
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl(OPERATOR, _norm, "AutogradCUDA")
        yield
    finally:
        library._destroy()


def _norm(rows: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None) -> Any:
    return _Fused.apply(rows, shape, weight, eps)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            out, factors = aten._fused_rms_norm.default(rows, shape, weight, eps)
        ctx.shape = shape
        ctx.save_for_backward(rows, factors, weight)
        ctx.mark_non_differentiable(factors)
        return out, factors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        rows, factors, weight = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[2] and weight is not None]
        of_rows, of_weight = aten._fused_rms_norm_backward.default(
            gradients[0], rows, ctx.shape, factors, weight, wanted
        )
        return of_rows, None, of_weight, None


def _forward(tracker: Tracker, func: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    rows, shape = args[:2]
    if rows.device.type != "cuda":
        with tracker:
            apart: tuple[Tensor, Tensor] = func.decompose(*args)
        return apart
    outer = rows.shape[: rows.dim() - len(shape)]
    precise = torch.float32 if rows.dtype in HALF else rows.dtype
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    return out, rows.new_empty((*outer, *(1 for _ in shape)), dtype=precise)


def _backward(tracker: Tracker, _func: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[Any, Any]:
    rows, weight, (wants_rows, wants_weight) = args[1], args[4], args[5]
    of_rows = torch.empty_like(rows, memory_format=torch.contiguous_format) if wants_rows else None
    return of_rows, torch.empty_like(weight) if wants_weight else None


HANDLERS[aten._fused_rms_norm.default] = _forward
HANDLERS[aten._fused_rms_norm_backward.default] = _backward
