"""The card that a traced program is told it runs on, from its name in the catalogue."""

from __future__ import annotations

import msgspec

from capienza.catalog.asked import claim_of
from capienza.catalog.capability import capability_text, traits_of
from capienza.catalog.capacity import capacity_of
from capienza.catalog.devices import load_devices, mig_profiles
from capienza.catalog.offer import GpuClaim
from capienza.errors import Message, UsageError, template

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


INSTANCE = template(
    "trace.mig-instance",
    "{name} is a MIG instance: the kernels are those of the whole card, on {processors} multiprocessors",
)
WHOLE = template(
    "trace.mig-whole",
    "{name} is a MIG instance whose multiprocessors are not known: those of the largest chip of its kind were taken, "
    "and what grows with them is an upper bound",
)
TOTAL = template(
    "trace.total-taken",
    "how much memory CUDA shows of {name} is not known: a program that asks is told {total_bytes}, which is the most "
    "that there may be",
)


class Machine(msgspec.Struct, frozen=True):
    """A card: its name, its compute capability, and CUDA's total in bytes.

    Multiprocessors are counted for a MIG instance alone; 0 stands for those of the largest chip of the capability.
    """

    name: str
    capability: tuple[int, int]
    total_bytes: int
    multiprocessors: int = 0
    assumed: tuple[Message, ...] = ()


def machine_of(name: str) -> Machine:
    """The card of that name.

    Raises `InputError` for a name that is not known, `UsageError` for one that leaves the kernels open.
    """
    claim = claim_of(name)
    traits = traits_of(claim)
    found = {one.capability for one in traits}
    if len(found) > 1:
        candidates = tuple(f"{one.name} ({capability_text(one.capability)})" for one in traits if one.capability)
        raise UsageError(SEVERAL(name=name, candidates=candidates))
    (capability,) = found
    if capability is None:
        raise UsageError(NO_CUDA(name=name))
    told = _name(claim, name)
    capacity, assumed = capacity_of(claim), list[Message]()
    total = capacity.cuda_total_bytes or capacity.smallest_bytes
    if total is None:
        total = capacity.largest_bytes or 0
        assumed.append(TOTAL(name=told, total_bytes=total))
    processors = 0
    if claim.share == "mig":
        processors = _processors(claim)
        assumed.append(INSTANCE(name=told, processors=processors) if processors else WHOLE(name=told))
    return Machine(told, capability, total, processors, tuple(assumed))


def _name(claim: GpuClaim, asked: str) -> str:
    """The catalogue's name of a card; of several that are alike, and of a part of one, the one that was asked for."""
    is_whole = len(claim.candidates) == 1 and claim.share != "mig"
    return load_devices()[claim.candidates[0]].name if is_whole else asked


def _processors(claim: GpuClaim) -> int:
    """The multiprocessors of a MIG instance, the most that its name allows; 0 where they are not known."""
    rows = [mig_profiles().get((key, claim.mig_profile or ""), {}) for key in claim.candidates]
    counts = [int(row.get("sm_count") or 0) for row in rows]
    return max(counts) if counts and all(counts) else 0
