"""The card that a traced program is told it runs on, from its name in the catalogue."""

from __future__ import annotations

import msgspec

from capienza.catalog.asked import claim_of
from capienza.catalog.capability import capability_text, traits_of
from capienza.catalog.capacity import capacity_of
from capienza.catalog.devices import load_devices
from capienza.catalog.offer import GpuClaim
from capienza.errors import UsageError, template

SEVERAL = template(
    "trace.several-cards",
    "{name} may mean several cards, which run different kernels: {candidates}",
    "name one of them",
)
NO_CUDA = template(
    "trace.no-cuda-card",
    "{name} is no card whose compute capability is known, so its kernels are not known",
    "name a card of NVIDIA as `capienza devices` lists them",
)


class Machine(msgspec.Struct, frozen=True):
    """A card: its name, its compute capability, and CUDA's total, 0 where that is not known."""

    name: str
    capability: tuple[int, int]
    total_bytes: int


def machine_of(name: str) -> Machine:
    """The card of that name.

    Raises `InputError` for a name that is not known, `UsageError` for one that leaves the kernels open.
    """
    claim = claim_of(name)
    traits = traits_of(claim)
    found = {one.capability for one in traits}
    if len(found) > 1:
        told = tuple(f"{one.name} ({capability_text(one.capability)})" for one in traits if one.capability)
        raise UsageError(SEVERAL(name=name, candidates=told))
    (capability,) = found
    if capability is None:
        raise UsageError(NO_CUDA(name=name))
    capacity = capacity_of(claim)
    return Machine(_name(claim, name), capability, capacity.cuda_total_bytes or capacity.smallest_bytes or 0)


def _name(claim: GpuClaim, asked: str) -> str:
    """The catalogue's name of a card; of several that are alike, the one that was asked for."""
    return load_devices()[claim.candidates[0]].name if len(claim.candidates) == 1 else asked
