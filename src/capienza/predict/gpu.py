"""What is known of one GPU before a run."""

from __future__ import annotations

import msgspec


class GpuFacts(msgspec.Struct, frozen=True):
    """CUDA's total and the name. None and "" are unknown.

    `is_estimated`: CUDA's total was not collected for this card, and is taken from the driver's.
    """

    total_bytes: int | None = None
    name: str = ""
    is_estimated: bool = False


NO_GPU = GpuFacts()
