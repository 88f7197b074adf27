"""Outputs of two fake attention kernels, as the CUDA kernels allocate them.

The efficient kernel returns its seed and offset on the CPU (transformers/cuda/attention.cu,
`_efficient_attention_forward`: on the card only while a graph is captured). cuDNN makes no sums where no gradient is
asked for (cudnn/MHA.cpp, `run_cudnn_SDP_fprop`). The other outputs of PyTorch's fake kernels, and those of flash, have
the shapes and types of the CUDA kernels (flash_attn/flash_api.cpp, `mha_fwd` and `mha_bwd`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._meta_registrations import alloc_with_matching_layout
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensorMode

LOGSUMEXP_STEP = 32
"""Queries: the efficient kernel keeps sums for a multiple of them (mem_eff_attention/kernel_forward.h, `kAlignLSE`)."""


@contextlib.contextmanager
def outputs_as_on_cuda() -> Iterator[None]:
    """While active, these fake kernels return what CUDA returns."""
    operators = torch.ops.aten
    replaced = {
        operators._scaled_dot_product_efficient_attention.default: _efficient,
        operators._scaled_dot_product_cudnn_attention.default: _cudnn,
    }
    table = fake_impls.op_implementations_dict
    before = {operator: table.get(operator) for operator in replaced}
    FakeTensorMode.cache_clear()
    table.update(replaced)
    try:
        yield
    finally:
        for operator, implementation in before.items():
            table.pop(operator)
            if implementation is not None:
                table[operator] = implementation
        FakeTensorMode.cache_clear()


def _efficient(
    mode: FakeTensorMode, _operator: Any, query: Tensor, _key: Tensor, value: Tensor, _bias: Any, logsumexp: bool,
    *_more: Any, **_options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    batch, heads, queries, _ = query.shape
    rows = math.ceil(queries / LOGSUMEXP_STEP) * LOGSUMEXP_STEP if logsumexp else 0
    with mode:
        out = torch.empty((batch, queries, heads, value.shape[-1]), dtype=query.dtype, device=query.device)
        sums = torch.empty((batch, heads, rows), dtype=torch.float32, device=query.device)
        seed, offset = (torch.empty((), dtype=torch.int64, device="cpu") for _ in range(2))
    return out.transpose(1, 2), sums, seed, offset


def _cudnn(
    mode: FakeTensorMode, _operator: Any, query: Tensor, key: Tensor, value: Tensor, _bias: Any, logsumexp: bool,
    *_more: Any, **_options: Any,
) -> Any:  # fmt: skip
    if logsumexp:
        return NotImplemented
    queries, keys = query.shape[2], key.shape[2]
    with mode:
        out = alloc_with_matching_layout(query, (*query.shape[:3], value.shape[-1]))
        sums = torch.empty((0,), dtype=torch.float32, device=query.device)
        seed, offset = (torch.empty((), dtype=torch.int64, device=query.device) for _ in range(2))
    return out, sums, None, None, queries, keys, seed, offset, None
