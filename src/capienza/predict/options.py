"""Which engine and training options leave the floor of weights and cache provable.

An option that is not understood may move weights off the card, or hold them or the cache in fewer bits. Then nothing is
proved from below: the floor of these entries is 0, what is expected stays, and the options are named.
"""

from __future__ import annotations

from capienza.card.model import Card
from capienza.card.options import plain_name
from capienza.card.training_options import KNOWN
from capienza.card.training_spellings import SPELLINGS
from capienza.errors import Message, template
from capienza.recipe.choices import WITHOUT_MEMORY
from capienza.recipe.launcher import LAUNCHERS
from capienza.recipe.versions import LIBRARIES
from capienza.units import Range

NEUTRAL_ENGINE_OPTIONS = frozenset(
    {
        "free_gpu_memory_fraction", "kv_cache_free_gpu_memory_fraction", "max_batch_total_tokens",
        "max_concurrent_requests", "max_input_length", "max_input_len", "max_input_tokens", "max_num_tokens",
        "max_seq_len", "max_tokens", "num_gpu_blocks_override", "num_shard", "pp_size", "tokens_per_block", "tp",
        "tp_size", "api_key", "async_scheduling", "attn_implementation", "cuda_memory_fraction", "dtype",
        "attention_backend", "block_size", "chat_template", "chunked_prefill_size",
        "context_length", "cuda_graph_max_bs", "cudagraph_capture_sizes", "cuda_graph_sizes",
        "disable_cuda_graph", "disable_custom_all_reduce", "disable_hybrid_kv_cache_manager", "disable_log_requests",
        "disable_log_stats", "disable_radix_cache", "distributed_executor_backend", "download_dir",
        "enable_auto_tool_choice", "enable_chunked_prefill", "enable_expert_parallel", "enable_lora",
        "enable_prefix_caching", "enforce_eager", "generation_config", "gpu_memory_utilization", "host",
        "kv_cache_dtype", "kv_cache_free_gpu_mem_fraction", "kv_cache_memory_bytes", "limit_mm_per_prompt",
        "max_batch_prefill_tokens", "max_batch_size", "max_logprobs", "max_lora_rank", "max_loras", "max_model_len",
        "max_num_batched_tokens", "max_num_seqs", "max_running_requests", "max_seq_len_to_capture",
        "max_total_tokens", "mem_fraction_static", "page_size", "pipeline_parallel_size", "port", "reasoning_parser",
        "scheduling_policy", "seed", "served_model_name", "swap_space", "tensor_parallel_size", "tool_call_parser",
        "tokenizer", "tokenizer_mode", "torch_dtype", "trust_remote_code", "uvicorn_log_level",
    }
)  # fmt: skip
"""Options that neither take weights off the card nor change their format, and whose effect on the cache is known."""
MOVES_WEIGHTS = frozenset({"fp8", "offload"})
"""Options of the recipe that take weights off the card, or hold them in fewer bits.

However GPUs share weights, one of them holds an even share at least.
"""
NEUTRAL_TRAINING_OPTIONS = (frozenset(KNOWN) - MOVES_WEIGHTS) | WITHOUT_MEMORY | {"checkpoint", "eval", "export"}
ON_GPU_CACHES = ("dynamic", "static", "quantized")
FOUR_BIT_METHODS = ("qlora",)

NOT_UNDERSTOOD = template(
    "predict.options-not-understood",
    "these may hold weights or cache elsewhere or in fewer bits, and are not understood: {options}; "
    "nothing is proved from below",
    "measure the run with these options, or leave them out of the card",
)


def open_options(card: Card, *, is_shared: bool = False) -> tuple[str, ...]:
    """The settings of a card under which its floor is not provable, by their place in the card.

    `is_shared`: the training is computed as one of several GPUs, with what of it is offloaded.
    """
    engine = card.engine.options if card.engine else {}
    found = [f"engine.options.{name}" for name, value in engine.items() if not _is_neutral(plain_name(name), value)]
    training = card.training
    if training is not None:
        found += [f"training.{name}" for name, value in training.options.items() if _moves(name, value, is_shared)]
        if training.method in FOUR_BIT_METHODS and card.weights.format is None:
            found.append("training.method")
    return tuple(found)


def _moves(name: str, value: object, is_shared: bool) -> bool:
    """May an option of the training take weights off the card, or hold them in fewer bits?"""
    option = _option(name)
    if option == "offload":
        return not is_shared
    if option in LAUNCHERS or (option == "sharding" and str(value).endswith(".json")):
        # A file may offload too; what is written out says so.
        return not is_shared and ("offload" in str(value) or str(value).endswith(".json"))
    return option not in NEUTRAL_TRAINING_OPTIONS


def _option(name: str) -> str:
    """The option of the recipe that a name stands for."""
    plain = plain_name(name)
    return SPELLINGS[plain].option if plain in SPELLINGS else plain


def _is_neutral(name: str, value: object) -> bool:
    """An option whose effect is known; of the cache classes of transformers, those that stay on the GPU."""
    plain = name.removeprefix("no_")
    is_known = plain in NEUTRAL_ENGINE_OPTIONS or name in LIBRARIES
    return is_known or (name == "cache_implementation" and value in ON_GPU_CACHES)


def option_notes(card: Card, *, is_shared: bool = False) -> tuple[Message, ...]:
    """What the reader has to know about such settings; `is_shared` as in `open_options`."""
    options = open_options(card, is_shared=is_shared)
    return (NOT_UNDERSTOOD(options=options),) if options else ()


def without_floor(amount: Range) -> Range:
    """The same expectation and ceiling, with nothing proved from below."""
    return Range(0, amount.expected, amount.ceiling)
