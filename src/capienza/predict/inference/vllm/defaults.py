"""The settings that vLLM takes when the flags leave them out.

Sources: `engine/arg_utils.py` and `config.py` of the wheels named in `version`; utilisation 0.92 from 0.21
(before 0.90).
"""

from __future__ import annotations

import msgspec

from capienza.architecture.model import Architecture
from capienza.predict.inference.serving import Serving
from capienza.predict.inference.vllm.version import Version, read_version
from capienza.units import GIB

LARGE_CARD_BYTES = 70 * GIB
LARGEST_CARD_BYTES = 160 * GIB
USUAL_BATCHED_TOKENS = 2048
CHUNKED_FROM_TOKENS = 32768
"""V0 cuts prompts on its own only for contexts longer than this."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that shape memory, all resolved. `assumed` names those that the flags did not state."""

    version: Version
    utilization: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    enforce_eager: bool
    cache_format: str
    caches_prefixes: bool
    keeps_windows: bool
    draft_layers: int
    pool_bytes: int | None
    assumed: tuple[str, ...]


def settings(serving: Serving) -> Settings:
    """Flags first, then the defaults of the version for this card."""
    version = read_version(serving.version, use_v1=serving.flag("use_v1"))
    options = serving.options
    length = serving.count("max_model_len") or serving.architecture.max_position_embeddings or 0
    names = ("gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens")
    sequences = serving.count("max_num_seqs") or _sequences(serving, version)
    return Settings(
        version=version,
        utilization=serving.number("gpu_memory_utilization", 0.92 if version.is_at_least(0, 21) else 0.90),
        max_model_len=length,
        max_num_seqs=sequences,
        max_num_batched_tokens=_batched_tokens(serving, version, length, sequences),
        block_size=serving.count("block_size") or (64 if _is_latent(serving.architecture) and version.is_v1 else 16),
        enforce_eager=serving.flag("enforce_eager") is True,
        cache_format=str(options.get("kv_cache_dtype") or "auto"),
        caches_prefixes=serving.flag("enable_prefix_caching") is not False,
        keeps_windows=_keeps_windows(serving, version),
        draft_layers=serving.count("draft_layers") or 0,
        pool_bytes=serving.count("kv_cache_memory_bytes"),
        assumed=tuple(name for name in names if options.get(name) is None),
    )


def _sequences(serving: Serving, version: Version) -> int:
    return 1024 if version.is_v1 and _is_large(serving, version) else 256  # V0: 256 on every card


def _is_large(serving: Serving, version: Version) -> bool:
    """Is this a card that V1 takes larger defaults for? A100 counted until 0.9."""
    is_a100 = "a100" in serving.gpu.lower() and version.is_at_least(0, 9)
    return (serving.total_bytes or 0) >= LARGE_CARD_BYTES and not is_a100 and "gb10" not in serving.gpu.lower()


def _batched_tokens(serving: Serving, version: Version, length: int, sequences: int) -> int:
    """Tokens of the profile run: `max_num_batched_tokens`, or the whole context where prompts are not cut."""
    stated = serving.count("max_num_batched_tokens")
    if stated is not None:
        return stated
    if not version.is_v1:
        is_cut = serving.flag("enable_chunked_prefill")
        return USUAL_BATCHED_TOKENS if is_cut else max(length, USUAL_BATCHED_TOKENS)
    if version.is_at_least(0, 30) and (serving.total_bytes or 0) >= LARGEST_CARD_BYTES:
        return 16384
    return max(8192 if _is_large(serving, version) else USUAL_BATCHED_TOKENS, sequences)


def _is_latent(architecture: Architecture) -> bool:
    return any(layer.attention is not None and layer.attention.kind == "latent" for layer in architecture.layers)


def _keeps_windows(serving: Serving, version: Version) -> bool:
    """Blocks beyond a window are freed from V1 0.9 on, unless the hybrid manager is off."""
    is_off = serving.flag("disable_hybrid_kv_cache_manager")
    return version.is_v1 and version.is_at_least(0, 9) and not is_off
