"""Options of engines whose meaning is known: one spelling each, and no value that no version of an engine takes.

Only what is impossible is refused (another type, a sign, a share above 1); whether a value is enough for the load is
not for the card to say. An option that is not listed here is kept as it is written.
Sources: vLLM 0.11 `EngineArgs`, SGLang 0.5 `ServerArgs`, TGI 3 launcher, TensorRT-LLM `KvCacheConfig`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import msgspec

from capienza.card.model import Scalar
from capienza.errors import phrase

_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_WITH_LETTER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?[kKmMgGtT]", re.ASCII)
MAX_PORT = 65_535
BLOCK_SIZES = frozenset({1, 8, 16, 32, 64, 128, 256})
"""What vLLM's `BlockSize` lists; the blocks of the other engines are among them."""


class Accepted(msgspec.Struct, frozen=True):
    """What an option takes: in words, and as a test of the written value."""

    text: str
    takes: Callable[[Scalar], bool]


def plain_name(option: str) -> str:
    """An option's name as the engines' own configuration writes it: a flag has dashes, a field underscores."""
    return option.strip().lstrip("-").replace("-", "_").casefold()


def accepted_by(option: str) -> Accepted | None:
    """What a known option takes; None for one that is not known."""
    return ACCEPTED.get(plain_name(option))


def as_flag(value: object) -> bool | None:
    """The truth that a flag states; None for what is no flag."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.casefold())
    return bool(value) if value in (0, 1) else None


def _number(value: Scalar) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    return value if math.isfinite(value) else None


def _is_whole(value: Scalar, minimum: int = 1, maximum: float = float("inf")) -> bool:
    number = _number(value)
    return number is not None and minimum <= number <= maximum and number == int(number)


def _has_letter(value: Scalar) -> bool:
    """A count as vLLM also takes it: 16k."""
    return isinstance(value, str) and bool(_WITH_LETTER.fullmatch(value))


def _is_length(value: Scalar) -> bool:
    """-1 and auto ask vLLM for the longest that fits."""
    return _is_whole(value) or _has_letter(value) or value in (-1, "-1", "auto")


def _is_share(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def _is_amount(value: Scalar) -> bool:
    number = _number(value)
    return number is not None and number >= 0


def _is_flag(value: Scalar) -> bool:
    return value in (0, 1) or (isinstance(value, str) and value.casefold() in ("true", "false"))


COUNT = Accepted(phrase("a whole number of at least 1"), _is_whole)
BLOCK = Accepted(phrase("1, 8, 16, 32, 64, 128 or 256"), lambda value: _is_whole(value) and int(value) in BLOCK_SIZES)
COUNT_OR_ALL = Accepted(phrase("a whole number of at least 1, or -1"), lambda value: _is_whole(value) or value == -1)
TOKENS = Accepted(phrase("a whole number of at least 1"), lambda value: _is_whole(value) or _has_letter(value))
LENGTH = Accepted(phrase("a whole number of at least 1, -1 or auto"), _is_length)
SHARE = Accepted(phrase("a share above 0, at most 1"), _is_share)
AMOUNT = Accepted(phrase("a number of at least 0"), _is_amount)
FLAG = Accepted(phrase("true or false"), _is_flag)
PORT = Accepted(phrase("a whole number from 1 to 65535"), lambda value: _is_whole(value, 1, MAX_PORT))
NAME = Accepted(phrase("the name of a number format, or auto"), lambda value: isinstance(value, str) and bool(value))

ACCEPTED: dict[str, Accepted] = {
    **dict.fromkeys(
        (
            "cuda_memory_fraction", "free_gpu_memory_fraction", "gpu_memory_utilization",
            "kv_cache_free_gpu_mem_fraction", "kv_cache_free_gpu_memory_fraction", "mem_fraction_static",
        ),
        SHARE,
    ),
    **dict.fromkeys(
        (
            "context_length", "cuda_graph_max_bs", "data_parallel_size", "max_batch_prefill_tokens", "max_batch_size",
            "max_batch_total_tokens", "max_concurrent_requests", "max_input_len", "max_input_length",
            "max_input_tokens", "max_lora_rank", "max_loras", "max_num_seqs", "max_num_tokens", "max_output_len",
            "max_running_requests", "max_seq_len", "max_tokens", "max_total_tokens", "num_gpu_blocks_override",
            "num_shard", "page_size", "pipeline_parallel_size", "pp_size", "tensor_parallel_size", "tokens_per_block",
            "tp", "tp_size",
        ),
        COUNT,
    ),
    "block_size": BLOCK,
    "chunked_prefill_size": COUNT_OR_ALL,
    "max_model_len": LENGTH,
    **dict.fromkeys(("kv_cache_memory_bytes", "max_num_batched_tokens"), TOKENS),
    **dict.fromkeys(("cpu_offload_gb", "swap_space"), AMOUNT),
    **dict.fromkeys(
        (
            "disable_cuda_graph", "disable_hybrid_kv_cache_manager", "disable_radix_cache", "enable_chunked_prefill",
            "enable_dp_attention", "enable_lora", "enable_prefix_caching", "enforce_eager", "trust_remote_code",
        ),
        FLAG,
    ),
    "port": PORT,
    "kv_cache_dtype": NAME,
}  # fmt: skip
"""Known options by their plain name."""
