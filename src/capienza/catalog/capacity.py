"""What a GPU of an offer can hold: the two capacities that verdicts compare with (DESIGN rule 3).

The driver's own total, where the offer has one, wins. Otherwise every candidate of the name counts: *exclude* compares
with the largest of them, *fit* with the smallest, and one candidate that no driver figure is known for leaves *fit*
unknown. The seller's text and its ECC claim change neither: they are statements, not readings.
"""

from __future__ import annotations

import functools
import math
import re
from decimal import Decimal

import msgspec

from capienza.catalog import basis
from capienza.catalog.device import Device
from capienza.catalog.devices import Row, load_devices, mig_profiles
from capienza.catalog.names import has_size, memory_in, stated_gb
from capienza.catalog.offer import GpuClaim
from capienza.errors import Message
from capienza.units import GIB, MIB

OLD_DRIVER_SHARE = Decimal("0.9")
"""The least part of its memory that a card was seen to report: an old driver's 22919 MiB of 24576."""


class GpuCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """Capacities of one GPU, or of one MIG instance, in bytes, each with its basis; None is unknown."""

    largest_bytes: int | None
    largest_basis: Message
    smallest_bytes: int | None
    smallest_basis: Message
    cuda_total_bytes: int | None = None
    candidates: tuple[str, ...] = ()


class _Bounds(msgspec.Struct, frozen=True):
    """The same, for one candidate; the largest is always known."""

    largest_bytes: int
    largest_basis: Message
    smallest_bytes: int | None
    smallest_basis: Message
    cuda_total_bytes: int | None


@functools.lru_cache(maxsize=1024)
def capacity_of(claim: GpuClaim) -> GpuCapacity:
    """The capacities of what `claim` describes. Equal claims have equal capacities."""
    devices = [load_devices()[key] for key in claim.candidates]
    if claim.memory_source == "driver" and claim.memory_reported_bytes is not None:
        if not devices or is_divided(claim) or _may_report(devices, claim.memory_reported_bytes):
            return _from_driver(claim, claim.memory_reported_bytes, devices)
        return _not_believed(devices, claim.candidates)
    if not devices:
        return GpuCapacity(
            largest_bytes=None, largest_basis=basis.NOT_A_NAME(), smallest_bytes=None, smallest_basis=basis.NOT_A_NAME()
        )
    bounds = [_bounds(device, claim) for device in devices]
    largest = max(bounds, key=lambda bound: bound.largest_bytes)
    smallest, smallest_basis = _smallest(devices, bounds, claim)
    cuda = [bound.cuda_total_bytes for bound in bounds]
    return GpuCapacity(
        largest_bytes=largest.largest_bytes,
        largest_basis=largest.largest_basis,
        smallest_bytes=smallest,
        smallest_basis=smallest_basis,
        cuda_total_bytes=None if contradicts(claim) else _least(cuda),
        candidates=claim.candidates,
    )


def _from_driver(claim: GpuClaim, reported_bytes: int, devices: list[Device]) -> GpuCapacity:
    """A reading of the very machine: both bounds are that total. CUDA total only where the table saw the same card."""
    source = basis.BY_DRIVER(mib=reported_bytes // MIB)
    same = len(devices) == 1 and devices[0].smallest_bytes == reported_bytes
    return GpuCapacity(
        largest_bytes=reported_bytes,
        largest_basis=source,
        smallest_bytes=reported_bytes,
        smallest_basis=source,
        cuda_total_bytes=devices[0].cuda_total_bytes if same and not is_divided(claim) else None,
        candidates=claim.candidates,
    )


def _may_report(devices: list[Device], reported_bytes: int) -> bool:
    """Can one of the cards report that much? Old drivers leave out what they reserve, so a little less is possible."""
    return any(
        (device.smallest_bytes or device.largest_bytes) * OLD_DRIVER_SHARE <= reported_bytes <= device.largest_bytes
        for device in devices
    )


def _not_believed(devices: list[Device], candidates: tuple[str, ...]) -> GpuCapacity:
    """A figure that no card of the name reports is no reading of one: the table bounds it, and no fit rests on it."""
    largest = max(devices, key=lambda device: device.largest_bytes)
    return GpuCapacity(
        largest_bytes=largest.largest_bytes,
        largest_basis=largest.largest_basis,
        smallest_bytes=None,
        smallest_basis=basis.CONTRADICTED(),
        candidates=candidates,
    )


def is_divided(claim: GpuClaim) -> bool:
    """True when what is offered is a part of a GPU."""
    return claim.mig_profile is not None or claim.share not in (None, "whole")


def contradicts(claim: GpuClaim) -> bool:
    """True when the seller's memory fits no candidate of a whole GPU: the name or the memory is wrong."""
    if is_divided(claim):
        return False
    sizes = [stated_gb(text) for text in (memory_in(claim.name_raw), claim.memory_nominal) if text]
    return any(
        size is not None and not any(has_size(load_devices()[key], size) for key in claim.candidates) for size in sizes
    )


def _smallest(devices: list[Device], bounds: list[_Bounds], claim: GpuClaim) -> tuple[int | None, Message]:
    if contradicts(claim):
        return None, basis.CONTRADICTED()
    for device, bound in zip(devices, bounds, strict=True):
        if bound.smallest_bytes is None:
            return None, basis.OF_DEVICE(device=device.name, basis=bound.smallest_basis)
    least = min(bounds, key=lambda bound: bound.smallest_bytes or 0)
    return least.smallest_bytes, least.smallest_basis


def _least(amounts: list[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return min(known) if len(known) == len(amounts) else None


def _bounds(device: Device, claim: GpuClaim) -> _Bounds:
    if claim.mig_profile is not None:
        return _instance(device, claim.mig_profile)
    if is_divided(claim):
        return _Bounds(device.largest_bytes, basis.WHOLE(basis=device.largest_basis), None, basis.SHARED(), None)
    return _Bounds(
        device.largest_bytes,
        device.largest_basis,
        device.smallest_bytes,
        device.smallest_basis,
        device.cuda_total_bytes,
    )


def _instance(device: Device, profile: str) -> _Bounds:
    """One MIG instance. The number in the profile's name is rounded up; only a real reading supports a fit.

    Published constants of a mock (confidence B) exceed what cards show, so they bound from above only.
    """
    row = mig_profiles().get((device.key, profile), {})
    most, least = _instance_mib(row)
    if most is not None:
        largest, source = most * MIB, basis.INSTANCE_MOST(profile=profile, mib=most)
    else:
        gigabytes = int(re.split(r"[.g+]", profile)[2])
        largest, source = gigabytes * GIB, basis.INSTANCE_NAME(profile=profile)
    largest = min(largest, device.largest_bytes)
    if least is not None and row["confidence"] == "A":
        return _Bounds(largest, source, least * MIB, basis.INSTANCE_LEAST(profile=profile, mib=least), None)
    return _Bounds(largest, source, None, basis.INSTANCE_UNKNOWN(profile=profile), None)


def _instance_mib(row: Row) -> tuple[int | None, int | None]:
    """Most and least MiB of an instance: the driver's figure, or the GiB that `nvidia-smi mig -lgip` rounds to 0.01."""
    if row.get("reported_mib"):
        return int(row["reported_mib"]), int(row["reported_mib"])
    if row.get("lgip_gib"):
        shown, rounding = Decimal(row["lgip_gib"]), Decimal("0.005")
        return math.ceil((shown + rounding) * 1024), math.floor((shown - rounding) * 1024)
    return None, None
