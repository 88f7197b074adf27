"""Attention by one kernel, as the C++ composite does it: operands prepared, operator called, result cut.

Source: aten/src/ATen/native/transformers/attention.cpp, lines 580-916 about 2.13. In one thing it is followed as it
runs on plain tensors: the mask is added to the scores in place (for tensor subclasses it is not).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from capienza.trace.attention_call import CUDNN, EFFICIENT, FLASH, HALF_TYPES, MATH

FLASH_HEAD_STEP, MASK_STEP = 8, 8
"""Elements: heads are padded for flash, rows of a mask for the efficient kernel."""
CAUSAL_AND_MASK = "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
MASK_TYPE = "invalid dtype for bias - should match query's dtype"

aten = torch.ops.aten


class Given(NamedTuple):
    """The arguments of a call. A boolean mask has become one that is added."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    dropout: float
    is_causal: bool
    scale: float | None
    enable_gqa: bool


def additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A boolean mask as one that is added: 0 where it is true, minus infinity elsewhere."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device))


def empty(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The result where an operand has no element: zeros that still reach every operand's gradient."""
    out = torch.zeros((*query.shape[:-1], value.shape[-1]), dtype=query.dtype, device=query.device)
    return out + (query.sum() + key.sum() + value.sum()) * 0


def padded(operand: Tensor, step: int) -> Tensor:
    """With zeros after the last dimension, up to a multiple of that step."""
    missing = -operand.shape[-1] % step
    return torch.constant_pad_nd(operand, [0, missing]) if missing else operand


def _flash(given: Given) -> Tensor:
    size = given.query.shape[-1]
    scale = 1 / math.sqrt(size) if given.scale is None else given.scale
    operands = [padded(operand, FLASH_HEAD_STEP) for operand in given[:3]]
    out: Tensor = aten._scaled_dot_product_flash_attention(
        *operands, given.dropout, given.is_causal, False, scale=scale
    )[0]
    return out if out.shape[-1] == size else out[..., :size]


def _cudnn(given: Given) -> Tensor:
    query, key, value, mask, dropout, is_causal, scale, _ = given
    out: Tensor = aten._scaled_dot_product_cudnn_attention(
        query, key, value, mask, _keeps_sums(given), dropout, is_causal, False, scale=scale
    )[0]
    return out


def _efficient(given: Given) -> Tensor:
    query, _, _, mask, dropout, is_causal, scale, _ = given
    sums = _keeps_sums(given)
    key, value = _grouped(query, given)
    if mask is not None:
        if mask.dtype != query.dtype:
            raise RuntimeError(MASK_TYPE)
        mask = _aligned(mask).expand(*query.shape[:3], key.shape[2])
    out: Tensor = aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, sums, dropout, is_causal, scale=scale
    )[0]
    return out


def _plain(given: Given) -> Tensor:
    """The formula: half types in fp32 unless the program allowed them, scores L x S in memory."""
    query, mask, scale = given.query, given.mask, given.scale
    dtype = query.dtype
    if str(dtype).removeprefix("torch.") in HALF_TYPES and not torch._C._get_math_sdp_allow_fp16_bf16_reduction():
        given = given._replace(query=query.float(), key=given.key.float(), value=given.value.float())
    factor = math.sqrt(abs(scale) if scale is not None else 1 / math.sqrt(query.shape[-1]))
    query = given.query * (-factor if scale is not None and scale < 0 else factor)
    if given.is_causal:
        if mask is not None:
            raise RuntimeError(CAUSAL_AND_MASK)
        square = torch.ones((query.shape[-2], given.key.shape[-2]), dtype=torch.bool, device=query.device)
        mask = additive(square.tril(), query.dtype)
    key, value = _grouped(query, given)
    scores = query @ (key.transpose(-2, -1) * factor)
    if mask is not None:
        scores.add_(mask)
    scores = torch._safe_softmax(scores, -1)
    if given.dropout > 0:
        scores = torch.dropout(scores, given.dropout, True)
    return (scores @ value).to(dtype)


def _keeps_sums(given: Given) -> bool:
    return torch.is_grad_enabled() and any(operand.requires_grad for operand in given[:3])


def _grouped(query: Tensor, given: Given) -> tuple[Tensor, Tensor]:
    """Key and value with as many heads as the query."""
    key, value = given.key, given.value
    if not given.enable_gqa:
        return key, value
    heads = query.shape[-3]
    if heads == key.shape[-3] == value.shape[-3]:
        return key, value
    return key.repeat_interleave(heads // key.shape[-3], -3), value.repeat_interleave(heads // value.shape[-3], -3)


def _aligned(mask: Tensor) -> Tensor:
    """A mask whose rows begin at multiples of 8 elements: padded, then seen without the padding."""
    if mask.stride(-1) == 1 and all(stride % MASK_STEP == 0 for stride in mask.stride()[:-1]):
        return mask
    size = mask.shape[-1]
    # A whole step is added even where the size is a multiple: that is what `pad_bias` does.
    return torch.constant_pad_nd(mask, [0, MASK_STEP - size % MASK_STEP])[..., :size]


RUN: dict[str, Callable[[Given], Tensor]] = {FLASH: _flash, EFFICIENT: _efficient, MATH: _plain, CUDNN: _cudnn}
