"""What a card's counters say: torch's allocator, the driver, and the settings under which they were read.

Bytes everywhere. `allocated`, `reserved` and `device` are different counters: none is ever added to another. `outside`
is device used minus reserved at one and the same moment: the CUDA context, loaded kernels and what libraries take.
"""

from __future__ import annotations

import ctypes
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

CURRENT = {
    "allocated": "allocated_bytes.all.current", "reserved": "reserved_bytes.all.current",
    "requested": "requested_bytes.all.current", "active": "active_bytes.all.current",
}  # fmt: skip
PEAK = {name: key.replace(".current", ".peak") for name, key in CURRENT.items()}
COUNTS = {
    "cudamallocs": ("num_device_alloc", "segment.all.allocated"),
    "cudafrees": ("num_device_free", "segment.all.freed"),
    "retries": ("num_alloc_retries",),
    "ooms": ("num_ooms",),
}
VARIABLES = (
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_CUBLASLT_UNIFIED_WORKSPACE", "CUDA_MODULE_LOADING", "PYTORCH_NO_CUDA_MEMORY_CACHING",
)  # fmt: skip
PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "bitsandbytes",
    "torchvision",
    "triton",
    "nvidia-cublas",
    "nvidia-cudnn-cu13",
)


class NoCounters:
    """Main memory: the same calls, and nothing to read."""

    kind = "cpu"
    context: dict[str, int | None] = {}

    def start(self) -> None:
        """Nothing to reset."""

    def read(self) -> dict[str, Any]:
        """No counter of a GPU is read, so no figure is given."""
        return {}

    def clean(self) -> None:
        """Nothing is cached."""


class CudaCounters:
    """The counters of the first card."""

    kind = "cuda"

    def __init__(self, context: dict[str, int | None]) -> None:
        self.context = context

    def start(self) -> None:
        """Let the peaks begin again from what is held now."""
        import torch

        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()

    def read(self) -> dict[str, Any]:
        """Held now, highest since the start, and what the driver says at this moment."""
        import torch

        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        free, total = torch.cuda.mem_get_info()
        now = {name: stats.get(key) for name, key in CURRENT.items()}
        counts = {name: next((stats[key] for key in keys if key in stats), None) for name, keys in COUNTS.items()}
        reserved = now["reserved"] or 0
        return {
            "now": now, "peak": {name: stats.get(key) for name, key in PEAK.items()}, "counts": counts,
            "device": total - free, "outside": total - free - reserved,
        }  # fmt: skip

    def clean(self) -> None:
        """Give back what can be given back: cached blocks, and the workspaces of cuBLAS where torch lets us."""
        import gc

        import torch

        gc.collect()
        torch.cuda.synchronize()
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear:
            clear()
        torch.cuda.empty_cache()


def device_used_by_driver() -> int | None:
    """Bytes in use on card 0 without making a CUDA context here (NVML); None where the library does not answer."""

    class Memory(ctypes.Structure):
        _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))

    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle, memory = ctypes.c_void_p(), Memory()
    if library.nvmlInit_v2():
        return None
    try:
        if library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)):
            return None
        return int(memory.used) if library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0 else None
    finally:
        library.nvmlShutdown()


def context() -> dict[str, int | None]:
    """What a process takes before it holds a tensor: before CUDA starts, once it has, after the first kernel."""
    import torch

    found: dict[str, int | None] = {"before_cuda": device_used_by_driver()}
    torch.cuda.init()
    free, total = torch.cuda.mem_get_info()
    found |= {"after_context": total - free, "cuda_total": total}
    torch.zeros(1, device="cuda").add_(1)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    found["after_first_kernel"] = total - free - torch.cuda.memory_reserved()
    found["after_first_kernel_by_driver"] = device_used_by_driver()
    return found


def settings(kind: str) -> dict[str, Any]:
    """Versions and switches that a memory reading depends on."""
    import torch

    found: dict[str, Any] = {"python": platform.python_version(), "device": kind}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    found |= {name: os.environ.get(name) for name in VARIABLES}
    found |= {
        "tf32": torch.backends.cuda.matmul.allow_tf32, "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cuda": torch.version.cuda, "threads": torch.get_num_threads(),
        "fp16_reduction": torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
    }  # fmt: skip
    if kind == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "gpu": properties.name, "cuda_total": properties.total_memory, "sms": properties.multi_processor_count,
            "capability": list(torch.cuda.get_device_capability(0)), "cudnn": torch.backends.cudnn.version(),
        }  # fmt: skip
    return found


def allocator_settings() -> dict[str, Any] | None:
    """The allocator's own word on how it was set; None where this release of torch does not tell."""
    import torch

    try:
        return torch.cuda.memory._snapshot().get("allocator_settings")
    except (AttributeError, RuntimeError, TypeError):
        return None
