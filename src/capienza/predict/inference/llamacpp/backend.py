"""How each device family of ggml sizes a buffer, and what it can do: names, alignment, row padding, events.

Legend: alignment bytes to which every tensor is rounded up; row padding elements to which one row of a quantised
tensor is completed, once for each tensor.
Sources (llama.cpp at 0c1e57098): `get_alignment` and `get_alloc_size` of ggml-cuda.cu and ggml-backend.cpp
(TENSOR_ALIGNMENT 32 in ggml-impl.h); device capabilities in the backends' `get_props`.
"""

from __future__ import annotations

import re

import msgspec

from capienza.formats.blocks import BLOCKS, GGUF_BLOCKS
from capienza.formats.layout import ceil_div

CPU = "CPU"
MAPPED = "CPU_Mapped"


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    """One family. `host_buffer` False: no pinned host memory of its own (unified memory, or none)."""

    name: str
    alignment: int
    row_padding: int = 0
    host_buffer: bool = True
    has_events: bool = False


HOST = Backend(name=CPU, alignment=32, host_buffer=False)
BACKENDS = {
    backend.name: backend
    for backend in (
        Backend(name="CUDA", alignment=128, row_padding=512, has_events=True),
        Backend(name="ROCm", alignment=128, row_padding=512, has_events=True),
        Backend(name="MUSA", alignment=128, row_padding=512, has_events=True),
        Backend(name="Vulkan", alignment=256),
        Backend(name="SYCL", alignment=128, row_padding=512),
        Backend(name="Metal", alignment=32, host_buffer=False),
        Backend(name="MTL", alignment=32, host_buffer=False),
    )
}
CUDA = BACKENDS["CUDA"]


def backend_of(device: str) -> Backend:
    """The family of "CUDA0", "Vulkan1", ...; an unknown one is sized like CUDA."""
    family = re.sub(r"\d+$", "", device)
    return HOST if family == CPU else BACKENDS.get(family, CUDA)


def host_buffer_name(devices: tuple[str, ...]) -> str:
    """Where host memory that a device copies from is allocated: pinned memory of the first device, if it has any."""
    if not devices or not backend_of(devices[0]).host_buffer:
        return CPU
    return re.sub(r"\d+$", "", devices[0]) + "_Host"


def padded(size: int, alignment: int) -> int:
    """The next multiple of `alignment`."""
    return ceil_div(size, alignment) * alignment


def row_bytes(kind: str, elements: int) -> int:
    """Bytes of a row of whole blocks."""
    block = BLOCKS[kind]
    return elements // block.elements * block.bytes


def allocated_bytes(size: int, kind: str, row: int, backend: Backend) -> int:
    """What a tensor of `size` bytes with rows of `row` elements takes in a buffer of that family."""
    short = row % backend.row_padding if backend.row_padding else 0
    if short and kind in GGUF_BLOCKS:
        size += row_bytes(kind, backend.row_padding - short)
    return padded(size, backend.alignment)
