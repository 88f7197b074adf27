"""How much an allocator can keep: at the card's end it gives back what is free before it asks for more.

Legend: T CUDA's total, the most that a process can have; o what is expected outside of the allocator in a phase: CUDA's
context, the communication library, an engine beside the trainer.
    room = T - o
Source: c10 CUDACachingAllocator.cpp (release_cached_blocks before an allocation fails).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from capienza.ledger.counters import OUTSIDE
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import total_of
from capienza.ledger.phase import Phase


def room_bytes(made: Iterable[Entry], phase: Phase, device: str, cuda_total_bytes: int | None) -> int:
    """What the allocator may reserve in a phase; without a known card as much as it wants."""
    if cuda_total_bytes is None:
        return sys.maxsize
    outside = (one for one in made if one.device == device and one.name in OUTSIDE and phase in one.phases)
    return cuda_total_bytes - total_of(outside).amount.expected
