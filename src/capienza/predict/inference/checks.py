"""What the engines' options are checked for alike: lengths below the load, another division, names of other engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from capienza.errors import InputError, Message, Place, template
from capienza.predict.inference.serving import OTHER_DIVISION, Serving

REFUSED_LENGTH = template(
    "predict.refused-length",
    "{found} tokens are below the {required} that tokens.required asks for: {engine} refuses such requests",
    "raise {option} to the required length, or leave it out",
)
REFUSED_PROMPT = template(
    "predict.refused-prompt",
    "{found} tokens are below the {required} of the prompt that tokens.required asks for: {engine} refuses such "
    "requests",
    "raise {option} to the length of the prompt, or leave it out",
)
OPEN_PROMPT = template(
    "predict.open-prompt",
    "{engine} refuses prompts of more than {found} tokens ({option}), and how the {required} required tokens divide is "
    "not stated",
    "write tokens.required as {{prompt: ..., output: ...}}",
)
OTHER_ENGINES = template(
    "predict.other-engines-option",
    "{engine} has no option of these names, which other engines have: {names}; they are not read",
    "write {engine}'s own option, or leave them out",
)

LOAD = {
    "api_key", "chat_template", "config", "download_dir", "dtype", "host", "load_format", "model", "port",
    "quantization", "revision", "seed", "served_model_name", "tokenizer", "tokenizer_mode", "trust_remote_code",
}  # fmt: skip
"""Names that no note is worth: several engines have them."""
WELL_KNOWN: dict[str, tuple[str, frozenset[str]]] = {
    "vllm": ("vLLM", frozenset({
        "block_size", "cpu_offload_gb", "cudagraph_capture_sizes", "cuda_graph_sizes", "data_parallel_size",
        "disable_hybrid_kv_cache_manager", "enable_chunked_prefill", "enable_expert_parallel", "enable_lora",
        "enable_prefix_caching", "enforce_eager", "gpu_memory_utilization", "kv_cache_dtype", "kv_cache_memory_bytes",
        "limit_mm_per_prompt", "max_lora_rank", "max_loras", "max_model_len", "max_num_batched_tokens",
        "max_num_seqs", "max_seq_len_to_capture", "num_gpu_blocks_override", "num_scheduler_steps",
        "pipeline_parallel_size", "scheduling_policy", "speculative_config", "swap_space", "tensor_parallel_size",
    })),
    "sglang": ("SGLang", frozenset({
        "attention_backend", "chunked_prefill_size", "context_length", "cpu_offload_gb", "cuda_graph_bs",
        "cuda_graph_max_bs", "data_parallel_size", "disable_cuda_graph", "disable_custom_all_reduce",
        "disable_radix_cache", "dp_size", "enable_dp_attention", "enable_lora", "enable_mixed_chunk", "ep_size",
        "kv_cache_dtype", "mamba_full_memory_ratio", "max_lora_rank", "max_loras_per_batch", "max_mamba_cache_size",
        "max_prefill_tokens", "max_running_requests", "max_total_tokens", "mem_fraction_static", "page_size",
        "pipeline_parallel_size", "pp_size", "schedule_policy", "speculative_algorithm", "tensor_parallel_size", "tp",
        "tp_size",
    })),
    "tgi": ("TGI", frozenset({
        "attention", "cuda_graphs", "cuda_memory_fraction", "kv_cache_dtype", "max_batch_prefill_tokens",
        "max_batch_size", "max_batch_total_tokens", "max_concurrent_requests", "max_input_length", "max_input_tokens",
        "max_total_tokens", "max_waiting_tokens", "num_shard", "sharded", "waiting_served_ratio",
    })),
    "tensorrt-llm": ("TensorRT-LLM", frozenset({
        "backend", "enable_chunked_prefill", "free_gpu_memory_fraction", "kv_cache_dtype",
        "kv_cache_free_gpu_mem_fraction", "kv_cache_free_gpu_memory_fraction", "max_batch_size", "max_beam_width",
        "max_input_len", "max_num_tokens", "max_output_len", "max_seq_len", "max_tokens", "pp_size",
        "pipeline_parallel_size", "tensor_parallel_size", "tokens_per_block", "tp_size",
    })),
    "transformers": ("transformers", frozenset({
        "attn_implementation", "batch_size", "cache_implementation", "cache_nbits", "device_map", "kv_cache_dtype",
        "low_cpu_mem_usage", "max_new_tokens", "num_beams", "torch_dtype", "use_cache",
    })),
}  # fmt: skip
"""Options by which each engine is known, beside those in `LOAD`; other names are not judged."""
READ_AS_OWN = {
    "sglang": {"kv_cache_memory_bytes", "max_model_len"},
    "tgi": {"block_size", "kv_cache_memory_bytes", "max_model_len", "pipeline_parallel_size", "tensor_parallel_size"},
    "tensorrt-llm": {
        "block_size", "kv_cache_memory_bytes", "max_model_len", "max_num_batched_tokens", "max_num_seqs",
    },
    "transformers": {"pipeline_parallel_size", "tensor_parallel_size"},
}  # fmt: skip
"""Names of other engines that are read for the engine's own."""


def check_length(serving: Serving, engine: str, options: Iterable[str]) -> None:
    """Raises `InputError` where an option keeps a sequence shorter than the card requires."""
    required = serving.required_tokens
    for option in options:
        length = serving.count(option)
        if length and required is not None and length < required:
            message = REFUSED_LENGTH(found=length, required=required, engine=engine, option=option)
            raise InputError(message, Place(serving.file, key=f"engine.options.{option}"))


def check_prompt(serving: Serving, engine: str, options: Iterable[str]) -> tuple[Message, ...]:
    """A note where an option keeps a prompt short whose length is not stated. Raises `InputError` where it is."""
    prompt, required = serving.prompt_tokens, serving.required_tokens
    notes = []
    for option in options:
        length = serving.count(option)
        if length and prompt is not None and length < prompt:
            message = REFUSED_PROMPT(found=length, required=prompt, engine=engine, option=option)
            raise InputError(message, Place(serving.file, key=f"engine.options.{option}"))
        if length and prompt is None and required is not None and length < required:
            notes.append(OPEN_PROMPT(engine=engine, found=length, option=option, required=required))
    return tuple(notes)


def check_division(serving: Serving, options: Mapping[str, str]) -> None:
    """Raises `InputError` where an option divides the model otherwise than the card's placement."""
    for option, field in options.items():
        told, stated = serving.count(option), getattr(serving.split, field)
        if told is not None and told != stated:
            message = OTHER_DIVISION(found=str(told), field=f"placement.{field}", stated=stated)
            raise InputError(message, Place(serving.file, key=f"engine.options.{option}"))


def other_engines_options(name: str, options: Iterable[str]) -> tuple[Message, ...]:
    """A note on options by which other engines are known, and this one is not."""
    engine, own = WELL_KNOWN[name]
    read = own | LOAD | READ_AS_OWN.get(name, set())
    owners = {
        option: [title for title, known in WELL_KNOWN.values() if option in known]
        for option in options
        if option not in read
    }
    names = tuple(f"{option} ({'/'.join(titles)})" for option, titles in owners.items() if titles)
    return (OTHER_ENGINES(engine=engine, names=names),) if names else ()
