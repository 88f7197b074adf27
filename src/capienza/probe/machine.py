"""The machine around the GPUs: system, processor, memory, disk, Python and the packages of that Python.

Legend: `ram_bytes` the memory that this program may use: the least of what the machine has and what its control group
allows; `disk_bytes` what is free in a folder. What the system does not say is None, never zero.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from pathlib import Path

import msgspec

PACKAGES = (
    "torch", "triton", "vllm", "sglang", "text-generation-server", "tensorrt-llm", "transformers", "tokenizers",
    "safetensors", "accelerate", "peft", "trl", "deepspeed", "bitsandbytes", "flash-attn", "flashinfer-python",
    "xformers", "llama-cpp-python", "gguf", "autoawq", "gptqmodel", "compressed-tensors", "torchao", "optimum",
    "unsloth", "numpy", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime",
)  # fmt: skip
"""The distributions that decide what a machine can run, by the name of their package index."""
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Other names for the two processors that offers speak of."""
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine is. `packages` are those of the Python that runs this program, by version."""

    os: str | None
    cpu_arch: str | None
    python_version: str
    ram_bytes: int | None
    disk_bytes: int | None
    packages: dict[str, str]


def probe_machine(folder: Path) -> Machine:
    """Look at the machine; `folder` is where the free disk space is asked for. Nothing is imported for it."""
    processor = platform.machine().lower()
    return Machine(
        os=platform.system().lower() or None,
        cpu_arch=ARCHITECTURES.get(processor, processor) or None,
        python_version=platform.python_version(),
        ram_bytes=_ram(),
        disk_bytes=_disk(folder),
        packages=dict(_packages()),
    )


def _ram(limits: tuple[Path, ...] = CGROUP_LIMITS) -> int | None:
    found = []
    with contextlib.suppress(AttributeError, OSError, ValueError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in limits:
        try:
            with path.open() as file:
                text = file.read(40).strip()
        except OSError:
            continue
        if text.isascii() and text.isdigit():
            found.append(int(text))
    return min((size for size in found if size > 0), default=None)


def _disk(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _packages() -> list[tuple[str, str]]:
    from importlib import metadata

    found = []
    for name in PACKAGES:
        try:
            version = metadata.version(name)
        except Exception:
            continue
        if isinstance(version, str) and version:
            found.append((name, version[:64]))
    return found
