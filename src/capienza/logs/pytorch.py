"""Out-of-memory messages of PyTorch's allocators, in the wording of every release.

    0.x   cuda runtime error (2) : out of memory at ...; THCudaCheck FAIL ... error=2 : out of memory
    1.x   Tried to allocate A (GPU i; T total capacity; U already allocated; F free; R cached | reserved in total)
    2.x   Tried to allocate A. GPU i has a total capacity of T of which F is free. (Process N | this process) has P
          memory in use. Of the allocated memory U is allocated by PyTorch, and R is reserved by PyTorch but unallocated.
    async Allocation on device i would exceed allowed memory; Currently allocated, Requested, Device limit, Free
    MPS   MPS allocated: U, other allocations: O, max allowed: T). Tried to allocate A on private pool

`cached` of 1.0 to 1.3 is what the cache holds unused; `reserved in total` of 1.4 to 2.0 includes what is allocated.
The same words serve CUDA, HIP (ROCm) and XPU. A message may be cut anywhere or wrapped: each figure is looked for alone,
and a number without its whole unit is none.
"""

from __future__ import annotations

import re

import msgspec

from capienza.logs.figures import NUMBER, SIZE, size_bytes
from capienza.logs.said import said

_SINGLE = {
    "requested_bytes": re.compile(rf"[Tt]ried to allocate ({SIZE})|Requested\s*: ({SIZE})"),
    "total_bytes": re.compile(rf"({SIZE}) total capacity|total\s+capaci?ty of ({SIZE})|max allowed: ({SIZE})|Device limit\s*: ({SIZE})"),
    "free_bytes": re.compile(rf"({SIZE}) free\b|of which ({SIZE})(?: is free|\s*(?:is)?\s*$)|according to CUDA\): ({SIZE})"),
    "allocated_bytes": re.compile(
        rf"({SIZE}) already allocated|allocated memory ({SIZE}) is allocated|MPS allocated: ({SIZE})|Currently allocated\s*: ({SIZE})"
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


ROWS = (
    said("torch.block-limit", "can not allocate memory block with size larger than", is_wrapped=True, is_allocation=True, cause="compatibility", memory="no"),
    said("torch.oom", ("out of memory. tried to allocate", "out of memory (mps allocated", "cuda out of memory", "hip out of memory", "xpu out of memory", "mps backend out of memory", "allocation on device", "tried to allocate"), r"(?<!if.)(?:(?:CUDA|HIP|XPU|MPS backend) out of memory|allocation on device)|(?<!ou.)[Tt]ried to allocate [0-9.]+ [KMGT]?i?B", is_wrapped=True, is_allocation=True, memory="device"),
    said("torch.oom-0.x", ("cuda runtime error (2)", "error=2 : out of memory"), memory="device"),
    said("torch.class-only", "outofmemoryerror", r"OutOfMemoryError\b(?!: \w+ out of| ?: Allocation|\(.\w+ out of)", rank="error", memory="device"),
    said("torch.mps-buffer", "invalid buffer size", r"invalid buffer size:? <requested>", memory="device", cause="activations"),
    said("torch.cpu-allocator", ("defaultcpuallocator", "you tried to allocate"), r"you tried to allocate <requested>", unit="B", cause="host_ram", memory="host"),
    said("torch.cpu-allocator-short", "defaultcpuallocator", cause="host_ram", memory="host"),
    said("torch.pinned", ("cudahostalloc", "pinned memory"), r"^(?!.*ggml_).*(?:cudaHostAlloc|pin(?:ned)? memory).{0,80}out of memory|^(?!.*ggml_).*out of memory.{0,80}(?:cudaHostAlloc|pin_memory)", cause="host_ram", memory="host"),
    said("torch.paging-file", ("paging file is too small", "winerror 1455"), cause="host_ram", memory="host"),
    said("torch.cublas-alloc", ("cublas_status_alloc_failed", "cudnn_status_alloc_failed", "cusolver_status_alloc_failed", "cusparse_status_insufficient_resources"), memory="device"),
    said("torch.cublas-init", ("cublas_status_not_initialized", "cudnn_status_not_initialized", "cudnn_status_internal_error"), rank="error"),
    said("torch.no-engine", ("unable to find an engine to execute this computation", "unable to find a valid cudnn algorithm"), rank="error"),
    said("torch.fsdp-clone", "failed to clone() tensor with name", phase="checkpoint", cause="save_gather", is_fatal=False, is_wrapped=True, is_allocation=True, memory="device"),
    said("torch.cumem", "cumem_allocator.cpp", r"CUDA Error: (?:invalid argument|[a-z ]*?(?:device|context|initiali[sz]ed|supported))", cause="not_memory", memory="no"),
    said("torch.cumem-oom", "cumem_allocator.cpp", r"CUDA Error: out of memory", memory="device"),
    said("torch.same-device", "expected all tensors to be on the same device", cause="not_memory", memory="no"),
    said("torch.meta", ("cannot copy out of meta tensor", "tensor on device meta is not on the expected device"), cause="not_memory", memory="no"),
    said("torch.inplace", ("modified by an inplace operation", "does not require grad and does not have a grad_fn", "trying to backward through the graph a second time"), phase="backward", cause="not_memory", memory="no"),
    said("torch.unused", "expected to have finished reduction in the prior iteration", cause="not_memory", memory="no"),
    said("torch.shapes", ("size mismatch for", "shape mismatch", "shapes cannot be multiplied", "must match the size of tensor", "must match the existing size", "index out of range in self", "is invalid for input of size"), cause="not_memory", memory="no"),
    said("torch.dtypes", ("expected scalar type", "but got float", "but found float", "but got c10::half", "but found half", "\"addmm_impl_cpu_\" not implemented for 'half'", "not implemented for 'half'", "not implemented for 'bfloat16'", "have the same dtype", "probability tensor contains either"), cause="not_memory", memory="no"),
    said("torch.state-dict", ("error(s) in loading state_dict", "missing key(s) in state_dict"), phase="load", cause="not_memory", memory="no"),
    said("torch.archive", ("pytorchstreamreader failed", "unpicklingerror", "invalid load key", "headertoolarge", "metadataincompletebuffer", "invalidheaderdeserialization", "error while deserializing header", "file not in archive"), phase="load", cause="not_memory", memory="no"),
    said("torch.archive-write", ("pytorchstreamwriter failed", "inline_container.cc"), r"PytorchStreamWriter failed|unexpected pos|inline_container\.cc.{0,80}enforce fail", phase="checkpoint", cause="disk", memory="no"),
    said("torch.write-io", ("failed with input/output error", "iostream error"), r"write\(\): fd \d+ failed|iostream error", cause="disk", memory="no"),
    said("triton.resources", "out of resource", r"out of resources?: (?:shared memory|register|tensor memory|threads)|OutOfResources", cause="compatibility", memory="no"),
    said("torch.autotune", ("ignoring this choice", "runtime error during autotuning"), rank="notice", phase="profile_warmup", is_fatal=False, memory="no"),
)  # fmt: skip
