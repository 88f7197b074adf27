"""A card that the workload may be put on: what the catalogue says of it, and where it can be had."""

from __future__ import annotations

import msgspec

from capienza.catalog.offer import GpuClaim
from capienza.ledger.capacity import Capacity
from capienza.predict.gpu import GpuFacts


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of GPU. `offers` are the ids of the offers that have it; empty for one that is only named."""

    name: str
    claim: GpuClaim
    capacity: Capacity
    facts: GpuFacts
    offers: tuple[str, ...] = ()
