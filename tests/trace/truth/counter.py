"""Read PyTorch's own count of what its CPU allocator has given out, byte by byte, without a compiler.

PyTorch keeps that count itself once it is asked to report (`ProfiledCPUMemoryReporter`, c10/core/CPUAllocator.h); it is
read where it lies. Between two readings the highest count is seen by standing before `allocate`: our table of virtual
functions is the real one's with one entry changed, which calls the real one and then reads the count. Nothing of ours
runs when memory is given back, which also happens while Python carries an error. Sizes are those requested: this
allocator rounds none. The layouts are tried at the start; where they differ, `install` says so.

Call it in a process of its own: it stays in place until the process ends.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

ALLOCATE, NUM_VIRTUAL = 2, 6
"""The place of `allocate` in the table of a `c10::Allocator`, after its two destructors (c10/core/Allocator.h)."""
COUNT_OFFSET = 40 + 56
"""Bytes of the reporter's mutex and of its table of sizes, before the count."""
HIGHEST_PRIORITY = 255
Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class LayoutError(RuntimeError):
    """This PyTorch lays out its allocator in another way."""


class Counter:
    """Bytes that are allocated now, and the most since `restart`. Blocks born before `install` are not counted."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._count = ctypes.c_size_t(0)
        self._kept: list[object] = []

    @property
    def live_bytes(self) -> int:
        """The allocator's own count."""
        return self._count.value

    def restart(self) -> None:
        """The next peak is counted from what is live now."""
        self.peak_bytes = self.live_bytes

    def install(self) -> None:
        """Let PyTorch count, and stand before its allocator."""
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        ctypes.c_bool.in_dll(library, "FLAGS_caffe2_report_cpu_memory_usage").value = True
        library._ZN3c1025profiledCPUMemoryReporterEv.restype = ctypes.c_void_p
        count = ctypes.c_size_t.from_address(library._ZN3c1025profiledCPUMemoryReporterEv() + COUNT_OFFSET)
        library._ZN3c1022GetDefaultCPUAllocatorEv.restype = ctypes.c_void_p
        real = library._ZN3c1022GetDefaultCPUAllocatorEv()
        table = ctypes.cast(ctypes.c_void_p.from_address(real).value or 0, ctypes.POINTER(ctypes.c_void_p))
        allocate = Allocate(table[ALLOCATE])

        def allocated(out: int, _self: int, size: int) -> int:
            allocate(out, real, size)
            self.peak_bytes = max(self.peak_bytes, count.value)
            return out

        ours = (ctypes.c_void_p * NUM_VIRTUAL)(*table[:NUM_VIRTUAL])
        our_allocate = Allocate(allocated)
        ours[ALLOCATE] = ctypes.cast(our_allocate, ctypes.c_void_p).value
        pointer = ctypes.c_void_p(ctypes.addressof(ours))
        self._count = count
        self._kept += [ours, our_allocate, pointer]
        library._ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh.argtypes = [ctypes.c_void_p, ctypes.c_uint8]
        library._ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh(ctypes.addressof(pointer), HIGHEST_PRIORITY)
        self._try()

    def _try(self) -> None:
        before = self.live_bytes
        self.restart()
        block = torch.empty(12345, dtype=torch.uint8)
        seen = self.live_bytes - before, self.peak_bytes - before
        del block
        if seen != (12345, 12345) or self.live_bytes != before:
            raise LayoutError(torch.__version__)
