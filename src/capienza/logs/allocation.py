"""Out-of-memory messages of PyTorch's allocators, in the wording of every release.

    0.x   cuda runtime error (2) : out of memory at ...; THCudaCheck FAIL ... error=2 : out of memory
    1.x   Tried to allocate A (GPU i; T total capacity; U already allocated; F free; R cached | reserved in total)
    2.x   Tried to allocate A. GPU i has a total capacity of T of which F is free. (Process N | this process) has P
          memory in use. Of the allocated memory U is allocated by PyTorch, and R is reserved by PyTorch but
          unallocated
    async Allocation on device i would exceed allowed memory; Currently allocated, Requested, Device limit, Free
    MPS   MPS allocated: U, other allocations: O, max allowed: T). Tried to allocate A on private pool

`cached` of 1.0 to 1.3 is what the cache holds unused; `reserved in total` of 1.4 to 2.0 includes what is allocated.
The same words serve CUDA, HIP (ROCm) and XPU. A message may be cut anywhere or wrapped: each figure is looked for by
itself, and a number without its whole unit is none.
"""

from __future__ import annotations

import re

import msgspec

from capienza.logs.figures import SIZE, size_bytes

_SINGLE = {
    "requested_bytes": re.compile(rf"[Tt]ried to allocate ({SIZE})|Requested\s*: ({SIZE})"),
    "total_bytes": re.compile(
        rf"({SIZE}) total capacity|total\s+capaci?ty of ({SIZE})|max allowed: ({SIZE})|Device limit\s*: ({SIZE})"
    ),
    "free_bytes": re.compile(
        rf"({SIZE}) free\b|of which ({SIZE})(?: is free|\s*(?:is)?\s*$)|according to CUDA\): ({SIZE})"
    ),
    "allocated_bytes": re.compile(
        rf"({SIZE}) already allocated|allocated memory ({SIZE}) is allocated|MPS allocated: ({SIZE})"
        rf"|Currently allocated\s*: ({SIZE})"
    ),
    "reserved_unallocated_bytes": re.compile(rf"({SIZE}) cached|({SIZE}) is reserved by PyTorch but unallocated"),
    "reserved_total_bytes": re.compile(rf"({SIZE}) reserved in total"),
    "allowed_bytes": re.compile(rf"({SIZE}) allowed;"),
    "private_pool_bytes": re.compile(rf"with ({SIZE}) allocated in private pools"),
    "process_bytes": re.compile(rf"this process has ({SIZE}) memory in use"),
}
_GPU = re.compile(r"\bGPU\s+(\d{1,3})(?:;| has a total)|\b[Aa]llocation on device (?:cuda:)?(\d{1,3})\b")
_PROCESS = re.compile(rf"Process \d+ has ({SIZE}) memory in use")
_CONTEXT_BYTES = 3 * 2**30
"""What a process may hold on a card beside PyTorch's pool: context, libraries' workspaces, communicators."""
_PRINTED_BYTES = 2**24
"""What rounding to two decimals of a GiB may hide, over the figures added."""


class Allocation(msgspec.Struct, frozen=True):
    """The figures of one message in bytes, by name, and the index of the GPU."""

    figures: dict[str, int]
    gpu: int | None


def allocation_of(text: str) -> Allocation:
    """The figures in a message; absent ones are absent."""
    found: dict[str, int] = {}
    for name, pattern in _SINGLE.items():
        match = pattern.search(text)
        value = size_bytes(next(group for group in match.groups() if group)) if match else None
        if value is not None:
            found[name] = value
    others = others_bytes(text, found)
    if others:
        found["other_process_bytes"] = others
    match = _GPU.search(text)
    return Allocation(found, int(match[1] or match[2]) if match else None)


def others_bytes(text: str, figures: dict[str, int]) -> int | None:
    """What the other processes named by a message hold together; None where it names none.

    Inside a container the driver lists the process itself by a number that PyTorch does not know as its own: it then
    stands among `Process N`, and is the one that fits what the allocator holds.
    """
    sizes = [size for size in (size_bytes(match) for match in _PROCESS.findall(text)) if size is not None]
    if not sizes:
        return None
    if not figures.get("process_bytes"):
        pool = figures.get("allocated_bytes")
        if pool is None:
            return None
        own = _own(sizes, pool + figures.get("reserved_unallocated_bytes", 0), figures)
        if own is not None:
            sizes.remove(own)
    return sum(sizes) or None


def _own(sizes: list[int], held: int, figures: dict[str, int]) -> int | None:
    """The size that is the process's own, whose pool holds `held`; None where it is not listed."""
    able = [size for size in sizes if size >= held - _PRINTED_BYTES]
    if not able:
        return None
    if "total_bytes" in figures and "free_bytes" in figures:
        unlisted = figures["total_bytes"] - figures["free_bytes"] - sum(sizes)
        return min(able) if unlisted < max(held // 2, _PRINTED_BYTES) else None
    return min(able) if min(able) - held <= _CONTEXT_BYTES else None
