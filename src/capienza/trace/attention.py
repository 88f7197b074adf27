"""`scaled_dot_product_attention` on fake `cuda` tensors, as a CUDA build of PyTorch runs it.

A build without CUDA has no rule for choosing a kernel and falls to the plain formula (fp32 copies, L x S scores).
Here a Python kernel takes the operator's place while `installed` is active: it chooses (`attention_rules`) and calls
the fused operator, whose fake kernel PyTorch ships (`attention_run`). C++ callers pass through it too. In inference
mode a dispatch mode sees the whole operator first: it must take it apart (`decompose`) to see what is inside.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from capienza.trace.attention_call import CUDNN, EFFICIENT, FLASH, MATH, Call, Choice, Machine, Operand
from capienza.trace.attention_fakes import outputs_as_on_cuda
from capienza.trace.attention_rules import choose
from capienza.trace.attention_run import RUN, Given, additive, empty

OPERATOR = "scaled_dot_product_attention"
DISPATCH_KEYS = ("AutogradCUDA", "CUDA")
NO_KERNEL = "No available kernel. Aborting execution."

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
            return empty(query, key, value)
        call = described((query, key, value), attn_mask, dropout_p, is_causal, enable_gqa)
        choice = choose(call, _machine(capability, release, cudnn, order_before))
        on_choice(choice, call)
        if choice.kernel is None:
            raise RuntimeError(NO_KERNEL)
        mask = additive(attn_mask, query.dtype)
        return RUN[choice.kernel](Given(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa))

    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for dispatch_key in DISPATCH_KEYS:
                library.impl(OPERATOR, attention, dispatch_key)
        with outputs_as_on_cuda(), _in_place_of_the_composite(attention):
            yield
    finally:
        library._destroy()


def described(inputs: Sequence[Tensor], mask: Tensor | None, dropout: float, is_causal: bool, enable_gqa: bool) -> Call:
    """The call of query, key and value, without its tensors."""
    query, key, value = map(_operand, inputs)
    return Call(
        query,
        key,
        value,
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
        int(tensor.storage_offset()),
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


@contextlib.contextmanager
def _in_place_of_the_composite(attention: Callable[..., Tensor]) -> Iterator[None]:
    """While active, that function is also what the operator is taken apart into, as in inference mode."""
    kernels = torch.ops.aten.scaled_dot_product_attention.default.py_kernels
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    before = kernels.get(key)
    kernels[key] = attention
    try:
        yield
    finally:
        kernels.pop(key)
        if before is not None:
            kernels[key] = before
