"""What is known of one GPU before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from capienza.catalog.capability import GpuTraits


class GpuFacts(msgspec.Struct, frozen=True):
    """CUDA's total and the name. None and "" are unknown.

    `is_estimated`: CUDA's total was not collected for this card, and is taken from the driver's. `traits` are what
    rules look at, one for each GPU that the name may mean; empty where no GPU is named.
    """

    total_bytes: int | None = None
    name: str = ""
    is_estimated: bool = False
    traits: tuple[GpuTraits, ...] = ()


NO_GPU = GpuFacts()
