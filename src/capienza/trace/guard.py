"""Fake tensors on `cuda` where there is none.

Two objects decide whether PyTorch accepts a CUDA device: the guard of that device, in a table that libc10 exports, and
the CUDA hooks. A build with CUDA brings both, but without a driver its hooks fail in the first backward pass. For a
build without, an object whose methods all answer 0 is put into the table; PyTorch then finds a guard with no devices
and replaces it by the no-operation guard that it keeps for fake tensors. The hooks get a copy of their own table of
methods in which "is it built?" answers yes and "has it a context?" no. `torch.cuda.is_available()` stays False. All of
it is put back at the end.

Bound to the layout of torch's C++ classes: `capienza.trace.probe` tries it in another process first, because a wrong
slot ends the process. Seen with torch 2.13.0+cpu and 2.11.0+cu130 (slots from c10/core/impl/DeviceGuardImplInterface.h
and aten/src/ATen/detail/CUDAHooksInterface.h).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

import torch

REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
GET_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
CUDA_SLOT, REGISTRY_SLOTS = 1, 22
GUARD_METHODS = 40
HOOKS_METHODS, IS_BUILT, HAS_PRIMARY_CONTEXT = 60, 2, 4
BEFORE_TABLE = 2
"""Words before a table of methods: the offset to the whole object, and its type."""
WORD = ctypes.sizeof(ctypes.c_void_p)

# Functions of C that do nothing but answer, whatever they are given: one of Python would swallow an interrupt.
_yes, _no = ctypes.pythonapi.Py_IsInitialized, ctypes.CDLL(None).pthread_condattr_destroy
_kept: list[object] = []
"""What C++ goes on pointing at: never given back."""


def is_needed() -> bool:
    """Is there no CUDA device here, whether PyTorch was built for one or not?"""
    return not torch.cuda.is_available()


@contextlib.contextmanager
def cuda_accepted() -> Iterator[None]:
    """Inside, fake tensors may be made on `cuda`. Raises `OSError` or `AttributeError` where a symbol is missing."""
    with contextlib.ExitStack() as stack:
        if not torch.backends.cuda.is_built():
            stack.enter_context(_guard_without_devices())
        torch._C._ensureCUDADeviceGuardSet()
        if is_needed():
            stack.enter_context(_hooks_for_fakes())
        yield


@contextlib.contextmanager
def _guard_without_devices() -> Iterator[None]:
    """A build without CUDA has no guard: an object whose methods all answer 0 stands in for it."""
    registry = (ctypes.c_void_p * REGISTRY_SLOTS).in_dll(ctypes.CDLL(str(_libraries() / "libc10.so")), REGISTRY)
    before = registry[CUDA_SLOT]
    registry[CUDA_SLOT] = _empty_guard()
    try:
        yield
    finally:
        registry[CUDA_SLOT] = before


@contextlib.contextmanager
def _hooks_for_fakes() -> Iterator[None]:
    """Without a device the hooks of a build with CUDA fail at the first backward pass, those of one without at once."""
    get_hooks = ctypes.CDLL(str(_libraries() / "libtorch_cpu.so"))[GET_HOOKS]
    get_hooks.restype = ctypes.c_void_p
    hooks = ctypes.cast(get_hooks(), ctypes.POINTER(ctypes.c_void_p))
    before = hooks[0]
    if before is None:
        raise OSError(GET_HOOKS)
    hooks[0] = _hooks_that_say_built(before)
    try:
        yield
    finally:
        hooks[0] = before


def _libraries() -> Path:
    return Path(torch.__file__).parent / "lib"


def _empty_guard() -> int:
    """The address of an object whose methods all answer 0."""
    answer = ctypes.cast(_no, ctypes.c_void_p).value
    table = (ctypes.c_void_p * GUARD_METHODS)(*[answer] * GUARD_METHODS)
    guard = (ctypes.c_void_p * 1)(ctypes.addressof(table))
    _kept.extend((table, guard))
    return ctypes.addressof(guard)


def _hooks_that_say_built(table: int) -> int:
    """The address of a copy of that table of methods with two answers changed."""
    words = HOOKS_METHODS + BEFORE_TABLE
    copy = (ctypes.c_void_p * words).from_buffer_copy(
        (ctypes.c_void_p * words).from_address(table - BEFORE_TABLE * WORD)
    )
    copy[BEFORE_TABLE + IS_BUILT] = ctypes.cast(_yes, ctypes.c_void_p).value
    copy[BEFORE_TABLE + HAS_PRIMARY_CONTEXT] = ctypes.cast(_no, ctypes.c_void_p).value
    _kept.append(copy)
    return ctypes.addressof(copy) + BEFORE_TABLE * WORD


def prove() -> bool:
    """A forward and a backward pass on fake `cuda`: does it work with this PyTorch?"""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with cuda_accepted(), torch.autograd.set_multithreading_enabled(False), FakeTensorMode():
        layer = torch.nn.Linear(4, 4, device="cuda")
        layer(torch.randn(2, 4, device="cuda")).relu().sum().backward()
        gradient = layer.weight.grad
        return gradient is not None and gradient.device.type == "cuda"
