"""Text Generation Inference, TensorRT-LLM with Triton, LMDeploy and their like."""

from __future__ import annotations

from capienza.logs.said import enters, said

ROWS = (
    said(
        "tgi.prefill-tokens",
        "not enough memory to handle",
        r"not enough memory to handle \d+ (?:prefill )?tokens|not enough memory to handle \S+ total tokens",
        phase="profile_warmup",
        memory="unknown",  # its warm-up says so of any exception: the one behind it tells
    ),
    said(
        "exllama.vram",
        "insufficient vram",
        r"insufficient VRAM (?:in split )?for (?:the )?(?:model|cache|context|draft)",
        phase="load",
        memory="device",
    ),
    said(
        "tgi.heads",
        "must be divisible by `num_shards`",
        phase="load",
        cause="configuration",
        memory="no",
    ),
    said(
        "tgi.arguments",
        "`max_input_length` must be | `max_input_tokens` must be | `max_batch_prefill_tokens` must be | "
        "`max_batch_total_tokens` must be | argumentvalidation( | `num_shard` | sharded is true but only found",
        phase="startup",
        cause="configuration",
        memory="no",
    ),
    said(
        "tgi.request",
        "`inputs` tokens + `max_new_tokens` must be | `inputs` must have less than | input validation error",
        phase="prefill",
        cause="configuration",
        memory="no",
        is_fatal=False,
    ),
    said(
        "tgi.killed",
        "shard process was signaled to shutdown with signal 9",
        phase="load",
        cause="host_ram",
        memory="host",
        rank="error",
    ),
    said(
        "tgi.outer",
        "shard process was signaled | shard 0 failed to start | failed to start | shutting down shards | "
        "error: shardcannotstart | shard complete standard error output | webserver crashed | error: warmup( | "
        "shardfailed",
        r"^(?!.*(?:signal 9|enginecore|workerproc|engine process))",
        rank="consequence",
    ),
    enters(
        "tgi.prefill",
        "method prefill encountered an error",
        "prefill",
    ),
    enters(
        "tgi.decode",
        "method decode encountered an error",
        "decode",
    ),
    enters(
        "tgi.warmup",
        "method warmup encountered an error | warming up model | error: warmup( | unable to warmup model",
        "profile_warmup",
    ),
    enters(
        "tgi.load",
        "error when initializing model | waiting for shard | starting shard | starting check and download "
        "process | successfully downloaded weights",
        "load",
    ),
    enters(
        "tgi.capture",
        "cuda graphs are enabled for sizes | cuda graph warmup",
        "graph_capture",
    ),
    enters(
        "tgi.ready",
        "setting max batch total tokens to | text_generation_router: router | invalid hostname",
        "",
    ),
    # TensorRT.
    said(
        "trt.requested",
        "requested amount of gpu memory | requested size was",
        r"Requested (?:amount of GPU memory \(|size was )<requested>",
        unit="B",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "trt.oom",
        "error code 2: outofmemory | error code 1: cuda runtime (out of memory) | cuda runtime error in | "
        "failed to allocate gpu memory | error code: 2 (out of memory | outofmemory (",
        r"out ?of ?memory|failed to allocate",
        memory="device",
    ),
    said(
        "trt.tactic",
        "insufficient memory on tactic | some tactics do not have sufficient workspace | tactic device request",
        rank="notice",
        phase="profile_warmup",
        memory="device",
        is_fatal=False,
    ),
    said(
        "trt.component",
        "executor creation failed due to insufficient gpu memory",
        memory="device",
    ),
    said(
        "trt.component-cache",
        "component could not be created",
        r"could not be created: .*KV cache",
        rank="error",
        phase="kv_cache_allocation",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "trt.component-model",
        "component could not be created",
        r"could not be created: Model",
        rank="error",
        phase="load",
        cause="weights",
        memory="device",
    ),
    enters(
        "trt.total",
        "total gpu memory (gib)",
        "*",
        r"Total GPU memory \(GiB\): <total>",
        unit="GiB",
    ),
    enters(
        "trt.free",
        "component creation attempt (gib)",
        "*",
        r"component creation attempt \(GiB\): <free>",
        unit="GiB",
    ),
    said(
        "trt.load-module",
        "error executing load_single_module",
        r"(?!.*out of memory)",
        rank="error",
        phase="load",
    ),
    said(
        "trt.pool",
        "no free block found | free gpu memory is not sufficient | not enough gpu memory for kv cache | "
        "maxattentionwindow | failed to allocate kv cache",
        r"(?!.*\[I\])",
        rank="error",
        phase="kv_cache_allocation",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "trt.prompt",
        "prompt length | exceeds maximum input length | maxinputlen | max_input_len",
        r"prompt length \(\d+\).{0,60}exceed|exceeds max(?:imum)? ?input",
        phase="prefill",
        cause="configuration",
        memory="no",
        is_fatal=None,
    ),
    said(
        "trt.version",
        "the engine plan file is not compatible | the engine plan file is generated on an incompatible device "
        "| serialization assertion | engine plan file",
        phase="load",
        cause="compatibility",
        memory="no",
    ),
    enters(
        "trt.module",
        "load_single_module",
        "load",
    ),
    enters(
        "trt.context",
        "iexecutioncontext creation | icudaengine creation | in iruntime | loaded engine size: | loading "
        "engine | engine load time | engine deserialization",
        "load",
    ),
    enters(
        "trt.paged",
        "paged kv cache | number of blocks in kv cache | max kv cache pages",
        "kv_cache_allocation",
    ),
    enters(
        "trt.capture",
        "creating cuda graph instances | run generation only cuda graph warmup | running cuda graph warmup",
        "graph_capture",
    ),
    enters(
        "trt.warmup",
        "running autotuner warmup | run autotuning warmup | [autotuner]",
        "profile_warmup",
    ),
    # ONNX Runtime: the same arena stands on cards and on the host.
    said(
        "onnxruntime.arena",
        "failed to allocate memory for requested buffer",
        r"requested buffer of size <requested>",
        unit="B",
    ),
    # LMDeploy.
    said(
        "turbomind.oom",
        "[tm][error]",
        r"CUDA runtime error: out of memory",
        memory="device",
    ),
)
