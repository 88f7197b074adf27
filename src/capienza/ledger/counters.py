"""What each counter shows of one GPU's entries, phase by phase: counters are kept apart (DESIGN rules 3 and 4).

Legend: allocated    torch.cuda.max_memory_allocated: what tensors take in the allocator's blocks
        reserved     torch.cuda.max_memory_reserved: allocated and `cached`
        device       what the driver counts: reserved, CUDA's `context` and the communication library
        smallest     the least that the allocator must be able to reserve: it gives back what is cached before it fails,
                     so nothing of that is needed
"""

from __future__ import annotations

import msgspec

from capienza.ledger.ledger import CACHED, Ledger, Total, total_of
from capienza.ledger.phase import Phase

CONTEXT, HOST = "context", "host"
DEVICE_SPREAD = "device_spread"
OUTSIDE = frozenset({CONTEXT, "communication_library", "rollout_engine", "rollout_residue", DEVICE_SPREAD})
"""Entries that PyTorch's allocator does not hold."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """One phase on one GPU, by counter. They do not add up, and each is compared with its own kind alone."""

    phase: Phase
    device: str
    allocated: Total
    reserved: Total
    on_device: Total
    smallest: Total


def counters_of(ledger: Ledger, device: str) -> tuple[Counters, ...]:
    """The counters of every phase, in the order of a run."""
    entries = ledger.on(device)
    found = []
    for phase in ledger.phases:
        live = [entry for entry in entries if phase in entry.phases]
        inside = [entry for entry in live if entry.name not in OUTSIDE]
        allocated = total_of(entry for entry in inside if entry.name != CACHED)
        found.append(
            Counters(
                phase=phase,
                device=device,
                allocated=allocated,
                reserved=total_of(inside),
                on_device=total_of(live),
                smallest=allocated,
            )
        )
    return tuple(found)
