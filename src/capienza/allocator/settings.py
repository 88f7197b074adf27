"""What PYTORCH_ALLOC_CONF (formerly PYTORCH_CUDA_ALLOC_CONF) can say, as far as it moves memory."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True):
    """The allocator's options; the defaults are PyTorch's. Sizes in bytes, None is "no limit"."""

    expandable_segments: bool = False
    max_split_bytes: int | None = None
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: tuple[int, ...] = ()
