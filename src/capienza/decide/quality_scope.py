"""The scope that a quality result has to cover: settings that only say where memory lies change no output.

How large the pool is, how many sequences may share it, what waits on the host and how the allocator asks for memory
leave every operation on a sequence as it was. Any other setting may change what is computed, and asks for a result of
its own.
"""

from __future__ import annotations

import msgspec

from capienza.evidence.claims import DEFAULTS
from capienza.evidence.record import Scope

ONLY_MEMORY = frozenset({
    "allocator",
    # vLLM
    "engine.gpu_memory_utilization", "engine.kv_cache_memory_bytes", "engine.num_gpu_blocks_override",
    "engine.swap_space", "engine.cpu_offload_gb", "engine.max_num_seqs", "engine.cuda_graph_sizes",
    "engine.cudagraph_capture_sizes",
    # SGLang
    "engine.mem_fraction_static", "engine.max_total_tokens", "engine.max_running_requests", "engine.cuda_graph_max_bs",
    "engine.cuda_graph_bs",
    # TGI, TensorRT-LLM
    "engine.cuda_memory_fraction", "engine.max_batch_total_tokens", "engine.max_batch_size",
    "engine.kv_cache_free_gpu_mem_fraction", "engine.kv_cache_free_gpu_memory_fraction",
    "engine.free_gpu_memory_fraction", "engine.max_tokens_in_paged_kv_cache",
})  # fmt: skip
_BETWEEN = "; "


def for_quality(scope: Scope) -> Scope:
    """The scope without the settings that only say where memory lies."""
    if scope.configuration is None:
        return scope
    settings = scope.configuration.split(_BETWEEN)
    kept = [setting for setting in settings if setting.partition("=")[0] not in ONLY_MEMORY]
    if len(kept) == len(settings):
        return scope
    return msgspec.structs.replace(scope, configuration=_BETWEEN.join(kept) or DEFAULTS)
