"""vLLM: what its start-up prints phase by phase, its refusals, and what its dead engine prints afterwards."""

from __future__ import annotations

from capienza.logs.said import enters, said

ROWS = (
    said(
        "vllm.free-below-share",
        "free memory on device",
        r"free memory on device (?:cuda:<gpu> )?\(<free>/<total> GiB\) on startup is less than desired GPU "
        r"memory utilization \(<n>, <requested> GiB\)",
        unit="GiB",
        phase="startup",
        cause="configuration",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "vllm.no-cache-blocks",
        "no available memory for the cache blocks",
        phase="kv_cache_allocation",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "vllm.cache-needed",
        "kv cache is needed | to serve at least one request",
        r"\(?<requested> KV cache is needed, which is larger than the available KV cache memory \(<free>\)",
        unit="GiB",
        phase="kv_cache_allocation",
        cause="kv_cache",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "vllm.cache-too-short",
        "is larger than the maximum number of tokens that can be stored in kv cache",
        phase="kv_cache_allocation",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "vllm.cache-length",
        "the maximum number of tokens that can be stored",
        phase="kv_cache_allocation",
        cause="kv_cache",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "vllm.sampler-warmup",
        "when warming up sampler with | warming up pooler with",
        r"out of memory occurred when warming up (?:sampler|pooler)",
        phase="profile_warmup",
        cause="logits",
        memory="device",
    ),
    said(
        "vllm.profiling",
        "error in memory profiling",
        r"error in memory profiling(?:.{0,200}?current free memory:? <free>)?",
        phase="profile_warmup",
        cause="other_process",
        memory="device",
        is_wrapped=True,
    ),
    said(
        "vllm.swap-space",
        "swap space",
        r"too large swap space\. <requested> out of the <total> total CPU memory",
        phase="startup",
        cause="host_ram",
        memory="host",
    ),
    said(
        "vllm.batched-tokens",
        "max_num_batched_tokens",
        r"max_num_batched_tokens \(\d+\) is smaller than max_model_len|max_num_batched_tokens.{0,40}must be"
        r"|chunked MM input disabled",
        phase="startup",
        cause="configuration",
        memory="no",
    ),
    said(
        "vllm.derived-length",
        "is greater than the derived max_model_len",
        phase="startup",
        cause="configuration",
        memory="no",
        is_fatal=None,
    ),
    said(
        "vllm.heads",
        "must be divisible by tensor parallel size | is not divisible by tensor parallel | is not divisible by "
        "weight quantization block_n | must be divisible by pipeline | is not a multiple of tensor parallel | "
        "must be divisible by tp_size | not divisible by the number of shards",
        phase="startup",
        cause="configuration",
        memory="no",
    ),
    said(
        "vllm.block-n",
        "is not divisible by min_thread_k | is not divisible by weight quantization block | the input size is "
        "not aligned with the quantized weight shape | is not divisible by min_thread_n",
        phase="load",
        cause="configuration",
        memory="no",
    ),
    said(
        "vllm.world-size",
        "is larger than the number of available gpus | exceeds the total number of available gpus | current "
        "node has no gpu available | no available node types can fulfill resource request | is larger than the "
        "number of gpus | requires more gpus than | world size (",
        r"(?:is )?larger than the number of|exceeds the total|no gpu available|no available node types|requires "
        r"more gpus",
        phase="startup",
        cause="configuration",
        memory="no",
    ),
    said(
        "vllm.architecture",
        "are not supported for now | model architectures [ | no supported architecture | has no vllm implementation",
        r"not supported|no supported|no vllm impl",
        phase="startup",
        cause="compatibility",
        memory="no",
        is_fatal=None,
    ),
    said(
        "vllm.quantization",
        "unknown quantization method | does not match the quantization method specified in the | cannot find "
        "the config file for | the quantization method | is not supported for quantization method",
        r"(?!.*warning)",
        phase="startup",
        cause="configuration",
        memory="no",
    ),
    said(
        "vllm.arguments",
        "is not supported for v1 | vllm_use_v1=1 is not supported | invalid repository id | chunked prefill is "
        "not supported | unrecognized arguments: | error: argument | usage: api_server.py | usage: vllm serve "
        "| lora rank",
        r"not supported|unrecognized|argument --?|LoRA rank \d+ is greater",
        phase="startup",
        cause="configuration",
        memory="no",
        is_fatal=None,
    ),
    said(
        "vllm.prompt-length",
        "is longer than the maximum model length | is too long and exceeds limit | maximum context length is | "
        "exceeds the maximum model length | longer than the maximum model length | is longer than the maximum "
        "context | which exceeds the model's maximum | longer than max_model_len",
        phase="prefill",
        cause="configuration",
        memory="no",
        is_fatal=None,
    ),
    said(
        "vllm.block-manager",
        "exceeds the capacity of block_manager",
        phase="prefill",
        cause="kv_cache",
        memory="device",
        is_fatal=None,
    ),
    said(
        "vllm.no-swap",
        "aborted due to the lack of cpu swap space",
        phase="decode",
        cause="kv_cache",
        memory="device",
    ),
    said(
        "vllm.preempted",
        "is preempted by preemptionmode | there is not enough kv cache space",
        phase="decode",
        cause="kv_cache",
        memory="device",
        is_fatal=False,
        rank="notice",
    ),
    said(
        "vllm.dead",
        "engine core initialization failed | engine process failed to start | mqllmengine is already dead | "
        "enginedeaderror | asyncenginedeaderror | background loop has errored already | engine loop is not "
        "running | engine core proc | enginecore encountered an issue | enginecore hit an exception | "
        "enginecore encountered a fatal error | enginecore failed to start | workerproc initialization failed "
        "| workerproc failed to start | worker failed with error | mqclient | died, exit code | background "
        "task has errored | terminating server process | this could be caused by | executor failed",
        rank="consequence",
    ),
    said(
        "vllm.estimate-graphs",
        "vllm_memory_profiler_estimate_cudagraphs",
        rank="error",
        phase="graph_capture",
        cause="graph_capture",
        memory="device",
    ),
    said(
        "vllm.token-indices",
        "token indices sequence length is longer than",
        rank="notice",
        phase="data",
        cause="configuration",
        memory="no",
        is_fatal=False,
    ),
    said(
        "vllm.graph-pool",
        "cuda graphs",
        r"CUDA graphs? (?:memory|pool).{0,80}exceed",
        rank="notice",
        phase="graph_capture",
        is_fatal=False,
        memory="device",
    ),
    # What the start-up is doing.
    enters(
        "vllm.start",
        "initializing an llm engine | initializing a v1 llm engine | initializing an llm | non-default args: | "
        "vllm api server version",
        "startup",
    ),
    enters(
        "vllm.load",
        "starting to load model | loading safetensors checkpoint shards | loading pt checkpoint shards | "
        "loading weights with bitsandbytes quantization | loading weights took | time spent downloading "
        "weights | using model weights format | loading model from scratch",
        "load",
    ),
    enters(
        "vllm.loaded",
        "model loading took | loading model weights took",
        "profile_warmup",
    ),
    enters(
        "vllm.compile",
        "torch.compile takes | dynamo bytecode transform time | compiling a graph for | directly load the "
        "compiled graph",
        "profile_warmup",
    ),
    enters(
        "vllm.profiled",
        "memory profiling takes | the current vllm instance can use total_gpu_memory | model weights take | "
        "profiling results",
        "kv_cache_allocation",
        r"^(?:.*total_gpu_memory \(<total>\))?",
        unit="GiB",
    ),
    enters(
        "vllm.cache",
        "# gpu blocks: | gpu kv cache size: | maximum concurrency for | available kv cache memory:",
        "kv_cache_allocation",
    ),
    enters(
        "vllm.capture",
        "capturing cudagraphs for decoding | capturing cuda graph shapes | capturing cuda graphs | capturing "
        "the model for cuda graphs | capturing cuda graphs ( | profiling cuda graph memory",
        "graph_capture",
    ),
    enters(
        "vllm.ready",
        "graph capturing finished | init engine (profile, create kv cache | application startup complete | "
        "uvicorn running on | starting vllm api server | added request",
        "",
        r"(?!.*failed)",
    ),
    enters(
        "vllm.serving",
        "avg prompt throughput | processed prompts:",
        "",
        is_progress=True,
    ),
)
