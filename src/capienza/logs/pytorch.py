"""PyTorch: what its allocators, libraries and loaders of files refuse. The figures of its messages: `allocation`."""

from __future__ import annotations

from capienza.logs.said import said

ROWS = (
    said(
        "torch.block-limit",
        "can not allocate memory block with size larger than",
        is_wrapped=True,
        is_allocation=True,
        cause="compatibility",
        memory="no",
    ),
    said(
        "torch.oom",
        "out of memory. tried to allocate | out of memory (mps allocated | cuda out of memory | hip out of "
        "memory | xpu out of memory | mps backend out of memory | allocation on device | tried to allocate",
        r"(?<!if.)(?:(?:CUDA|HIP|XPU|MPS backend) out of memory|allocation on device)|(?<!ou.)[Tt]ried to "
        r"allocate [0-9.]+ [KMGT]?i?B",
        is_wrapped=True,
        is_allocation=True,
        memory="device",
    ),
    said(
        "torch.oom-0.x",
        "cuda runtime error (2) | error=2 : out of memory",
        memory="device",
    ),
    said(
        "torch.class-only",
        "outofmemoryerror",
        r"OutOfMemoryError\b(?!: \w+ out of| ?: Allocation|\(.\w+ out of)",
        rank="error",
        memory="device",
    ),
    said(
        "torch.mps-buffer",
        "invalid buffer size",
        r"invalid buffer size:? <requested>",
        memory="device",
        cause="activations",
    ),
    said(
        "torch.cpu-allocator",
        "defaultcpuallocator | you tried to allocate",
        r"you tried to allocate <requested>",
        unit="B",
        cause="host_ram",
        memory="host",
    ),
    said(
        "torch.cpu-allocator-short",
        "defaultcpuallocator",
        cause="host_ram",
        memory="host",
    ),
    said(
        "torch.pinned",
        "cudahostalloc | pinned memory",
        r"^(?!.*ggml_).*(?:cudaHostAlloc|pin(?:ned)? memory).{0,80}out of memory|^(?!.*ggml_).*out of "
        r"memory.{0,80}(?:cudaHostAlloc|pin_memory)",
        cause="host_ram",
        memory="host",
    ),
    said(
        "torch.paging-file",
        "paging file is too small | winerror 1455",
        cause="host_ram",
        memory="host",
    ),
    said(
        "torch.cublas-alloc",
        "cublas_status_alloc_failed | cudnn_status_alloc_failed | cusolver_status_alloc_failed | "
        "cusparse_status_insufficient_resources",
    ),
    said(
        "torch.cublas-init",
        "cublas_status_not_initialized | cudnn_status_not_initialized | cudnn_status_internal_error",
        rank="error",
    ),
    said(
        "torch.no-engine",
        "unable to find an engine to execute this computation | unable to find a valid cudnn algorithm",
        rank="error",
    ),
    said(
        "torch.fsdp-clone",
        "failed to clone() tensor with name",
        phase="checkpoint",
        cause="save_gather",
        is_fatal=False,
        is_wrapped=True,
        is_allocation=True,
        memory="device",
    ),
    said(
        "torch.cumem",
        "cumem_allocator.cpp",
        r"CUDA Error: (?:invalid argument|[a-z ]*?(?:device|context|initiali[sz]ed|supported))",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.cumem-oom",
        "cumem_allocator.cpp",
        r"CUDA Error: out of memory",
        memory="device",
    ),
    said(
        "torch.same-device",
        "expected all tensors to be on the same device",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.meta",
        "cannot copy out of meta tensor | tensor on device meta is not on the expected device",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.inplace",
        "modified by an inplace operation | does not require grad and does not have a grad_fn | trying to "
        "backward through the graph a second time",
        phase="backward",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.unused",
        "expected to have finished reduction in the prior iteration",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.shapes",
        "size mismatch for | shape mismatch | shapes cannot be multiplied | must match the size of tensor | "
        "must match the existing size | index out of range in self | is invalid for input of size",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.dtypes",
        "expected scalar type | input type (torch | but got float | but found float | but got c10::half | but found "
        "half | "
        "\"addmm_impl_cpu_\" not implemented for 'half' | not implemented for 'half' | not implemented for "
        "'bfloat16' | have the same dtype | probability tensor contains either",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.state-dict",
        "error(s) in loading state_dict | missing key(s) in state_dict",
        phase="load",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.archive",
        "pytorchstreamreader failed | unpicklingerror | invalid load key | headertoolarge | "
        "metadataincompletebuffer | invalidheaderdeserialization | error while deserializing header | file not "
        "in archive",
        phase="load",
        cause="not_memory",
        memory="no",
    ),
    said(
        "torch.archive-write",
        "pytorchstreamwriter failed | inline_container.cc",
        r"PytorchStreamWriter failed|unexpected pos|inline_container\.cc.{0,80}enforce fail",
        phase="checkpoint",
        cause="disk",
        memory="no",
    ),
    said(
        "torch.write-io",
        "failed with input/output error | iostream error",
        r"write\(\): fd \d+ failed|iostream error",
        cause="disk",
        memory="no",
    ),
    said(
        "triton.resources",
        "out of resource",
        r"out of resources?: (?:shared memory|register|tensor memory|threads)|OutOfResources",
        cause="compatibility",
        memory="no",
    ),
    said(
        "torch.autotune",
        "ignoring this choice | runtime error during autotuning",
        rank="notice",
        phase="profile_warmup",
        is_fatal=False,
        memory="no",
    ),
)
