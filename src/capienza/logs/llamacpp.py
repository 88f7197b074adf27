"""llama.cpp and what is built on it (ik_llama.cpp, llama-cpp-python, ollama, LM Studio), on every back end.

A run allocates weights, then the KV cache, then the compute buffers of the largest graph; each failure is printed
three or four times on the way out, and the outer lines speak of loading whatever failed.
"""

from __future__ import annotations

from capienza.logs.said import enters, said

ROWS = (
    said(
        "llamacpp.buffer",
        "on device",
        r"allocating <requested> on device <gpu>: (?:cuda|hip|musa)Malloc failed: out of memory",
        memory="device",
    ),
    said(
        "llamacpp.weights",
        "unable to allocate",
        r"unable to allocate (?:(?!CPU)\S+ )?(?:buffer|backend buffer)",
        phase="load",
        cause="weights",
        memory="device",
    ),
    said(
        "llamacpp.weights-host",
        "unable to allocate",
        r"unable to allocate (?:CPU\S*|host) buffer",
        phase="load",
        cause="host_ram",
        memory="host",
    ),
    said(
        "llamacpp.cache",
        "for kv cache | llama_kv_cache_init() failed | failed to allocate kv cache | failed to allocate buffer "
        "for rs cache | failed to create memory module",
        r"fail",
        phase="kv_cache_allocation",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "llamacpp.graph",
        "ggml_gallocr_reserve_n: failed to allocate | ggml_gallocr_reserve_n_impl: failed to allocate",
        r"failed to allocate \S+ buffer of size <requested>",
        unit="B",
        phase="profile_warmup",
        cause="activations",
        memory="device",
        detail="graph",
    ),
    said(
        "llamacpp.compute",
        "failed to allocate compute buffers | failed to allocate compute pp buffers | failed to allocate "
        "compute tg buffers | failed to reserve graph | failed to allocate graph",
        phase="profile_warmup",
        cause="activations",
        memory="device",
        detail="graph",
    ),
    said(
        "llamacpp.output",
        "failed to allocate output buffer",
        r"^(?:.*of size <requested>)?",
        phase="kv_cache_allocation",
        cause="logits",
        memory="device",
    ),
    said(
        "llamacpp.exact",
        "failed to allocate",
        r"failed to allocate \S+ buffer of size <requested>",
        unit="B",
        memory="device",
    ),
    said(
        "llamacpp.host",
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed | ggml_aligned_malloc: insufficient memory",
        r"(?:of size|attempted to allocate) <requested>",
        unit="B",
        cause="host_ram",
        memory="host",
    ),
    said(
        "llamacpp.pinned",
        "of pinned memory | ggml_cuda_host_malloc: warning | failed to allocate pinned memory | "
        "ggml_cuda_host_malloc: failed",
        r"failed to allocate (?:<requested> of )?pinned memory",
        phase="load",
        cause="host_ram",
        memory="host",
        is_fatal=False,
        rank="notice",
    ),
    said(
        "llamacpp.mlock",
        "failed to mlock | failed to munlock | rlimit_memlock",
        phase="load",
        cause="host_ram",
        memory="host",
        is_fatal=False,
        rank="notice",
    ),
    said(
        "llamacpp.mmap",
        "mmap failed: | mapviewoffile failed | failed to mmap",
        r"(?!.*prefetch)",
        phase="load",
        cause="host_ram",
        memory="host",
    ),
    said(
        "llamacpp.vulkan",
        "device memory allocation of size",
        r"allocation of size <requested> failed",
        unit="B",
        memory="device",
    ),
    said(
        "llamacpp.vulkan-code",
        "erroroutofdevicememory",
        memory="device",
    ),
    said(
        "llamacpp.vulkan-host",
        "erroroutofhostmemory",
        cause="host_ram",
        memory="host",
    ),
    said(
        "llamacpp.vulkan-limit",
        "exceeds device memory allocation limit | exceeds device buffer size limit",
        r"(?:requested|size)[^0-9]{0,40}(?:<requested>)?",
        unit="B",
        cause="configuration",
        memory="device",
    ),
    said(
        "llamacpp.vulkan-lost",
        "errordevicelost",
        rank="error",
        cause="not_memory",
        memory="no",
    ),
    said(
        "llamacpp.metal",
        "kiogpucommandbuffercallbackerroroutofmemory | insufficient memory (0000",
        memory="device",
    ),
    said(
        "llamacpp.metal-buffer",
        "alloc_buffer: error: failed to allocate buffer | ggml_metal_add_buffer: error | ggml_metal_buffer_init: error",
        r"size =\s*<requested>",
        memory="device",
        unit="MiB",
    ),
    said(
        "llamacpp.metal-graph",
        "ggml_metal_graph_compute: command buffer | ggml_metal_synchronize: error: command buffer",
        r"failed with status",
        rank="error",
        memory="unknown",
    ),
    said(
        "llamacpp.metal-limit",
        "is greater than the recommended max working set size",
        memory="device",
        cause="weights",
        phase="load",
        is_fatal=False,
        rank="notice",
    ),
    said(
        "llamacpp.sycl",
        "unable to allocate | ur_result_error_out_of_device_memory | ur_result_error_out_of_resources | can't allocate",
        r"OUT_OF_DEVICE_MEMORY|OUT_OF_RESOURCES|can't allocate <requested> (?:bytes )?of memory on device",
        unit="B",
        memory="device",
    ),
    said(
        "llamacpp.cuda",
        "cuda error",
        r"CUDA error \d+ at .*out of memory|CUDA error: out of memory",
        memory="device",
    ),
    said(
        "llamacpp.context-pool",
        "not enough space in the context's memory pool",
        r"\(needed <requested>, available <free>\)",
        unit="B",
        memory="host",
        cause="host_ram",
    ),
    said(
        "llamacpp.context-size",
        "exceeds the available context size | exceed context window of | exceeds context window | context size "
        "has been exceeded | prompt is too long | input is too long | is larger than the context size | the "
        "request exceeds | n_ctx_per_seq | prompt too long",
        r"exceed|too long|larger than the context",
        phase="prefill",
        cause="configuration",
        memory="no",
        is_fatal=None,
    ),
    said(
        "llamacpp.truncated",
        "truncating input prompt | input truncated",
        rank="notice",
        phase="prefill",
        cause="configuration",
        memory="no",
        is_fatal=False,
    ),
    said(
        "llamacpp.slots",
        "failed to find a memory slot | failed to find kv cache slot | failed to find free space in the kv "
        "cache | kv cache is full | could not find a kv slot",
        phase="decode",
        cause="kv_cache",
        memory="device",
        is_fatal=None,
    ),
    said(
        "llamacpp.batch",
        "n_tokens <= n_batch | n_tokens_all <= cparams.n_batch | input is too large to process | n_ubatch >= n_tokens",
        phase="prefill",
        cause="configuration",
        memory="no",
        is_fatal=None,
    ),
    said(
        "llamacpp.damaged",
        "model is corrupted or incomplete | is not within the file bounds | missing tensor | invalid magic | "
        "bad magic | unexpectedly reached end of file",
        phase="load",
        cause="not_memory",
        memory="no",
    ),
    said(
        "llamacpp.file",
        "unknown model architecture | failed to load model from | wrong number of tensors | wrong shape; "
        "expected | key not found in model | unsupported model architecture | failed to read key | unknown "
        "pre-tokenizer | unknown tokenizer | not a gguf | error loading model hyperparameters | error loading "
        "model vocabulary | failed to open gguf | invalid model: | done_getting_tensors | invalid ggml type | "
        "unsupported file version | unsupported gguf",
        r"(?!.*warning)(?!failed to load model from)",
        phase="load",
        cause="compatibility",
        memory="no",
        rank="error",
    ),
    said(
        "llamacpp.assert",
        "ggml_assert",
        r"GGML_ASSERT",
        rank="error",
    ),
    said(
        "ollama.system-memory",
        "requires more system memory | model request too large for system",
        r"model request too large|requires more system memory(?: \(<requested>\) than is available \(<free>\))?",
        phase="load",
        cause="host_ram",
        memory="host",
        unit="GiB",
    ),
    said(
        "ollama.recover",
        "vram usage didn't recover",
        phase="load",
        is_fatal=False,
        rank="notice",
        memory="device",
    ),
    said(
        "llamacpp.outer",
        "failed to load model | failed to create context | failed to create llama_context | unable to load "
        "model | exiting due to model loading error | failed to initialize the context | unable to create "
        "context | llama runner process has terminated | error loading model | llama_load_model_from_file: "
        "failed | failed to load model from file | timed out waiting for llama runner to start | unable to "
        "init server | could not load model",
        r"(?!.*LLM engine)",
        rank="consequence",
        phase="load",
    ),
    enters(
        "llamacpp.device",
        "current device:",
        "*",
        r"current device: <gpu>",
    ),
    enters(
        "llamacpp.load",
        "llama_model_loader: | llama_model_load: | llm_load_tensors | load_tensors: | llm_load_print_meta | "
        "print_info: | load_all_data | done_getting_tensors:",
        "load",
        r"(?!.*error)",
    ),
    enters(
        "llamacpp.context",
        "llama_new_context_with_model: | llama_context: | llama_kv_cache_init: | llama_kv_cache_unified: | "
        "llama_kv_cache: | llama_init_from_model:",
        "kv_cache_allocation",
        r"(?!.*(?:fail|error))",
    ),
    enters(
        "llamacpp.warmup",
        "warming up the model with an empty run",
        "profile_warmup",
    ),
    enters(
        "llamacpp.serving",
        "server is listening on | all slots are idle | http server listening | main: interactive mode on",
        "",
        is_progress=True,
    ),
    enters(
        "llamacpp.prompt",
        "prompt processing progress | new prompt, n_ctx_slot | kv cache rm [ | processing task | prompt_save",
        "prefill",
    ),
    enters(
        "llamacpp.decode",
        "prompt done, n_past | prompt done, n_tokens",
        "decode",
    ),
)
