"""`scaled_dot_product_attention` on fake `cuda` tensors, as a CUDA build of PyTorch runs it.

A build without CUDA has no rule for choosing a kernel and falls to the plain formula (fp32 copies, L x S scores). Here a
Python kernel takes the operator's place while `installed` is active: it chooses (`attention_rules`), prepares the
operands as the composite does in C++ (aten/src/ATen/native/transformers/attention.cpp, read at 2.13) and calls the fused
operator, whose fake kernel PyTorch ships. Registered below autograd's entry point, so C++ callers pass through it too.

Two things that fake kernels do differently from CUDA are corrected: the plain formula adds the mask in place
(attention.cpp does it out of place for tensor subclasses only), and the efficient kernel returns its seed and offset on
the CPU (transformers/cuda/attention.cu, `_efficient_attention_forward`).
"""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensorMode

from capienza.trace.attention_call import CUDNN, EFFICIENT, FLASH, KERNELS, MATH, Call, Choice, Machine, Operand
from capienza.trace.attention_rules import choose

OPERATOR = "scaled_dot_product_attention"
DISPATCH_KEYS = ("AutogradCUDA", "CUDA")
NO_KERNEL = "No available kernel. Aborting execution."
FLASH_HEAD_STEP, MASK_STEP, MASK_PAD = 8, 8, 8
"""Elements: heads are padded for flash; rows of a mask for the efficient kernel (16 and 16 before 2.6)."""
LOGSUMEXP_STEP = 32
"""Queries: the efficient kernel keeps sums for a multiple of them (mem_eff_attention/kernel_forward.h, `kAlignLSE`)."""

aten = torch.ops.aten
Report: TypeAlias = Callable[[Choice, Call], None]
_PRIORITY = {1: FLASH, 2: EFFICIENT, 0: MATH, 3: CUDNN}


@contextlib.contextmanager
def installed(
    capability: tuple[int, int],
    on_choice: Report,
    *,
    torch_release: tuple[int, int] | None = None,
    cudnn: int | None = None,
) -> Iterator[None]:
    """While active, attention on `cuda` runs the kernel that a card of this capability would run.

    `on_choice` is told each choice with the call it was made for. `cudnn` is numbered as in `Machine`.
    """
    release = torch_release or _release()
    order_before = torch._C._get_sdp_priority_order()

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        _check(query, key, value, attn_mask)
        if 0 in (query.numel(), key.numel(), value.numel()):
            return _empty(query, key, value)
        call = described(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        choice = choose(call, _machine(capability, release, cudnn, order_before))
        on_choice(choice, call)
        if choice.kernel is None:
            raise RuntimeError(NO_KERNEL)
        run = _RUN[choice.kernel]
        return run(query, key, value, _additive(attn_mask, query.dtype), dropout_p, is_causal, scale, enable_gqa)

    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for key in DISPATCH_KEYS:
                library.impl(OPERATOR, attention, key)
        with _seeds_on_cpu():
            yield
    finally:
        library._destroy()


def described(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, is_causal: bool, enable_gqa: bool
) -> Call:
    """The call, without its tensors."""
    return Call(
        _operand(query),
        _operand(key),
        _operand(value),
        None if mask is None else _operand(mask),
        float(dropout),
        is_causal,
        enable_gqa,
        torch.is_grad_enabled(),
    )


def _operand(tensor: Tensor) -> Operand:
    if tensor.is_nested:
        return Operand((), (), str(tensor.dtype).removeprefix("torch."), tensor.requires_grad, nested=True)
    return Operand(
        tuple(tensor.shape),
        tensor.stride(),
        str(tensor.dtype).removeprefix("torch."),
        tensor.requires_grad,
        tensor.storage_offset(),
    )


def _machine(
    capability: tuple[int, int], release: tuple[int, int], cudnn: int | None, order_before: list[int]
) -> Machine:
    """The card, with what the program has switched by now."""
    switches = {
        FLASH: torch._C._get_flash_sdp_enabled(),
        EFFICIENT: torch._C._get_mem_efficient_sdp_enabled(),
        MATH: torch._C._get_math_sdp_enabled(),
        CUDNN: torch._C._get_cudnn_sdp_enabled(),
    }
    order = torch._C._get_sdp_priority_order()
    asked = tuple(_PRIORITY[kernel] for kernel in order if kernel in _PRIORITY) if order != order_before else None
    strict = torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
    enabled = frozenset(kernel for kernel, is_on in switches.items() if is_on)
    return Machine(capability, release, cudnn, enabled, asked, strict, _cudnn_first(release))


def _cudnn_first(release: tuple[int, int]) -> bool | None:
    """What the environment asks of cuDNN (sdp_utils.cpp, `check_prefer_cudnn_attention`)."""
    if release >= (2, 10):
        return False if os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1" else None
    return {"0": False, "1": True}.get(os.environ.get("TORCH_CUDNN_SDPA_PREFERRED", ""))


def _release() -> tuple[int, int]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    """Raise what PyTorch raises for operands that no kernel takes (attention.cpp, `validate_sdpa_input`)."""
    types = (query.dtype, key.dtype, value.dtype)
    if len(set(types)) > 1:
        message = f"Expected query, key, and value to have the same dtype, but got {types}"
        raise RuntimeError(message)
    if not query.device == key.device == value.device:
        message = f"Expected query, key, and value on one device, but got {query.device}, {key.device}, {value.device}"
        raise RuntimeError(message)
    if min(query.dim(), key.dim(), value.dim()) < 2:
        message = "Expected query, key, and value to all be at least 2 dimensional"
        raise RuntimeError(message)
    # The plain formula alone takes a float mask with half operands, as PyTorch does since 2.5.
    if mask is not None and mask.dtype not in (torch.bool, query.dtype, torch.float32):
        message = f"Expected attn_mask dtype to be bool or float or to match query dtype, but got {mask.dtype}"
        raise RuntimeError(message)


def _empty(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    out = torch.zeros((*query.shape[:-1], value.shape[-1]), dtype=query.dtype, device=query.device)
    return out + (query.sum() + key.sum() + value.sum()) * 0


def _additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A boolean mask as one that is added."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device))


def _needs_logsumexp(*operands: Tensor) -> bool:
    return torch.is_grad_enabled() and any(operand.requires_grad for operand in operands)


def _flash(
    query: Tensor, key: Tensor, value: Tensor, _mask: Any, dropout: float, causal: bool, scale: float | None, _gqa: bool
) -> Tensor:
    size = query.shape[-1]
    scale = 1 / math.sqrt(size) if scale is None else scale
    padded = [_padded(operand, FLASH_HEAD_STEP) for operand in (query, key, value)]
    out: Tensor = aten._scaled_dot_product_flash_attention(*padded, dropout, causal, False, scale=scale)[0]
    return out if out.shape[-1] == size else out[..., :size]


def _padded(operand: Tensor, step: int) -> Tensor:
    missing = -operand.shape[-1] % step
    return torch.constant_pad_nd(operand, [0, missing]) if missing else operand


def _cudnn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    _gqa: bool,
) -> Tensor:
    wants = _needs_logsumexp(query, key, value)
    out: Tensor = aten._scaled_dot_product_cudnn_attention(
        query, key, value, mask, wants, dropout, causal, False, scale=scale
    )[0]
    return out


def _efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    gqa: bool,
) -> Tensor:
    wants = _needs_logsumexp(query, key, value)
    key, value = _grouped(query, key, value, gqa)
    if mask is not None:
        mask = _aligned(mask).expand(*query.shape[:3], key.shape[2])
    out: Tensor = aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, wants, dropout, causal, scale=scale
    )[0]
    return out


def _aligned(mask: Tensor) -> Tensor:
    """A mask whose rows begin at multiples of 8 elements: padded, then seen without the padding."""
    if mask.stride(-1) == 1 and all(stride % MASK_STEP == 0 for stride in mask.stride()[:-1]):
        return mask
    size = mask.shape[-1]
    # A whole step is added even where the size is a multiple: that is what `pad_bias` does.
    return torch.constant_pad_nd(mask, [0, MASK_PAD - size % MASK_PAD])[..., :size]


def _grouped(query: Tensor, key: Tensor, value: Tensor, gqa: bool) -> tuple[Tensor, Tensor]:
    """Key and value with as many heads as the query."""
    if not gqa or query.shape[-3] == key.shape[-3] == value.shape[-3]:
        return key, value
    heads = query.shape[-3]
    return key.repeat_interleave(heads // key.shape[-3], -3), value.repeat_interleave(heads // value.shape[-3], -3)


def _plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    gqa: bool,
) -> Tensor:
    """The formula, as `_scaled_dot_product_attention_math` computes it: half types in fp32, mask added in place."""
    dtype = query.dtype
    if dtype in (torch.float16, torch.bfloat16) and not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed():
        query, key, value = query.float(), key.float(), value.float()
    factor = math.sqrt(abs(scale) if scale is not None else 1 / math.sqrt(query.shape[-1]))
    query = query * (-factor if scale is not None and scale < 0 else factor)
    if causal:
        if mask is not None:
            message = "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            raise RuntimeError(message)
        shape = (query.shape[-2], key.shape[-2])
        mask = _additive(torch.ones(shape, dtype=torch.bool, device=query.device).tril(), query.dtype)
    key, value = _grouped(query, key, value, gqa)
    scores = query @ (key.transpose(-2, -1) * factor)
    if mask is not None:
        scores.add_(mask)
    scores = torch._safe_softmax(scores, -1)
    if dropout > 0:
        scores = torch.dropout(scores, dropout, True)
    return (scores @ value).to(dtype)


_RUN: dict[str, Callable[..., Tensor]] = dict(zip(KERNELS, (_flash, _efficient, _plain, _cudnn), strict=True))


@contextlib.contextmanager
def _seeds_on_cpu() -> Iterator[None]:
    """While active, the fake efficient kernel returns seed and offset where CUDA returns them."""
    operator = aten._scaled_dot_product_efficient_attention.default
    table = fake_impls.op_implementations_dict
    before = table.get(operator)

    def efficient(
        mode: FakeTensorMode,
        _operator: Any,
        query: Tensor,
        _key: Tensor,
        value: Tensor,
        _bias: Tensor | None,
        logsumexp: bool,
        *_more: Any,
        **_options: Any,
    ) -> tuple[Tensor, ...]:
        batch, heads, queries, _ = query.shape
        rows = math.ceil(queries / LOGSUMEXP_STEP) * LOGSUMEXP_STEP if logsumexp else 0
        with mode:
            out = torch.empty((batch, queries, heads, value.shape[-1]), dtype=query.dtype, device=query.device)
            sums = torch.empty((batch, heads, rows), dtype=torch.float32, device=query.device)
            seed, offset = (torch.empty((), dtype=torch.int64) for _ in range(2))
        return out.transpose(1, 2), sums, seed, offset

    FakeTensorMode.cache_clear()
    table[operator] = efficient
    try:
        yield
    finally:
        if before is None:
            table.pop(operator, None)
        else:
            table[operator] = before
        FakeTensorMode.cache_clear()
