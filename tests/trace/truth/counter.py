"""Count what PyTorch's CPU allocator is asked for, byte by byte, without a compiler.

PyTorch's own allocator does all the work: ours has a table of virtual functions whose `allocate` calls that of the real
one and puts a deleter of ours before the real one's. Sizes are those requested (the CPU allocator rounds none). The
layout of `c10::DataPtr` (data, deleter, context, device; c10/util/UniqueVoidPtr.h) is checked against a pointer that
the real allocator made; where it differs `install` says so and changes nothing.

Call it in a process of its own: the allocator stays in place until the process ends.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path

import torch

ALLOCATE, SIMPLE, RAW_DELETER, COPY = 2, 3, 4, 5
"""Places in the table of a `c10::Allocator`; 0 and 1 are its destructors (c10/core/Allocator.h)."""
HIGHEST_PRIORITY = 255
Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
RawDeleter = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _DataPtr(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("device", ctypes.c_int16),
    )


class LayoutError(RuntimeError):
    """This PyTorch lays out its allocator in another way."""


class Counter:
    """Bytes that are allocated now, and the most since `restart`."""

    def __init__(self) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0
        self._sizes: dict[int, int] = {}
        self._kept: list[object] = []

    def restart(self) -> None:
        """The next peak is counted from what is live now."""
        self.peak_bytes = self.live_bytes

    def install(self) -> None:
        """Put it before PyTorch's CPU allocator. Blocks born earlier are not counted, also when they die."""
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        library._ZN3c1022GetDefaultCPUAllocatorEv.restype = ctypes.c_void_p
        real = library._ZN3c1022GetDefaultCPUAllocatorEv()
        table = ctypes.cast(ctypes.c_void_p.from_address(real).value, ctypes.POINTER(ctypes.c_void_p))
        allocate = Allocate(table[ALLOCATE])
        deleter_address = RawDeleter(table[RAW_DELETER])(real)
        delete = Deleter(deleter_address)
        _check(real, allocate, delete, deleter_address)
        sizes = self._sizes

        def freed(context: int | None) -> None:
            self.live_bytes -= sizes.pop(context, 0)
            delete(context)

        our_deleter = Deleter(freed)
        our_deleter_address = ctypes.cast(our_deleter, ctypes.c_void_p).value

        def allocated(out: int, _self: int, size: int) -> int:
            allocate(out, real, size)
            made = _DataPtr.from_address(out)
            if made.context:
                sizes[made.context] = size
                made.deleter = our_deleter_address
                self.live_bytes += size
                self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            return out

        ours = (ctypes.c_void_p * 6)(*table[:6])
        our_allocate = Allocate(allocated)
        our_raw_deleter = RawDeleter(lambda _self: our_deleter_address)
        ours[ALLOCATE] = ctypes.cast(our_allocate, ctypes.c_void_p).value
        ours[RAW_DELETER] = ctypes.cast(our_raw_deleter, ctypes.c_void_p).value
        pointer = ctypes.c_void_p(ctypes.addressof(ours))
        self._kept += [ours, our_allocate, our_raw_deleter, our_deleter, pointer, allocate, delete]
        library._ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh.argtypes = [ctypes.c_void_p, ctypes.c_uint8]
        library._ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh(ctypes.addressof(pointer), HIGHEST_PRIORITY)


def _check(real: int, allocate: Allocate, delete: Deleter, deleter_address: int | None) -> None:
    made = _DataPtr()
    allocate(ctypes.addressof(made), real, 64)
    if not made.data or made.data != made.context or made.deleter != deleter_address or made.device & 0xFF:
        raise LayoutError(torch.__version__)
    delete(made.context)
