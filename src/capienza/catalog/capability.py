"""What a GPU can run: compute capabilities as pairs of whole numbers, gfx names, and lists of built code.

Legend: a capability is (major, minor), so (10, 0) is above (9, 0); as text or as a float it would not be. A family is
"9.x" (every minor of a major) or "10.3" (that one alone). Code built for sm_86 runs on 8.6 and on a higher minor of
the same major, never across majors; with a suffix (sm_90a) it runs on that chip alone. On AMD the gfx name decides.
Source: NVIDIA CUDA programming guide, binary compatibility.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from capienza.catalog.device import Device
from capienza.catalog.devices import load_devices
from capienza.catalog.offer import GpuClaim

Capability = tuple[int, int]
_CAPABILITY = re.compile(r"([0-9]{1,3})\.([0-9]{1,2})", re.ASCII)
_BUILT = re.compile(r"sm_([0-9]{1,3})([0-9])([a-z]?)", re.ASCII)
ARM_BESIDE = ("NVIDIA", "superchip")
"""Vendor and class of devices that sit beside an aarch64 processor: GH200, GB200, GB300, GB10, Jetson."""


class GpuTraits(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU that a name may mean, as far as rules look at it. Empty and None are unknown.

    `contradicts`: the seller's capability is another one than the catalogue's, and neither is taken.
    """

    name: str
    vendor: str = ""
    capability: Capability | None = None
    gfx: str = ""
    product_class: str = ""
    cpu_arch: str = ""
    contradicts: bool = False

    @property
    def found(self) -> str:
        """Capability or gfx name as people write it; empty when neither is known."""
        return self.gfx if self.capability is None else capability_text(self.capability)


def parse_capability(text: str) -> Capability | None:
    """Read "8.9" as (8, 9); None for anything else."""
    match = _CAPABILITY.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


def capability_text(capability: Capability) -> str:
    """(8, 9) as "8.9"."""
    return f"{capability[0]}.{capability[1]}"


def in_families(capability: Capability, families: Iterable[str]) -> bool:
    """Is the capability one of these, or a minor of one of these majors?"""
    return any(family in (capability_text(capability), f"{capability[0]}.x") for family in families)


def is_built_for(capability: Capability, architectures: Iterable[str]) -> bool:
    """Does some of the built code run on this capability?"""
    return any(_runs(match, capability) for match in map(_BUILT.fullmatch, architectures) if match)


def _runs(built: re.Match[str], capability: Capability) -> bool:
    major, minor = int(built[1]), int(built[2])
    if built[3]:
        return capability == (major, minor)
    return capability[0] == major and capability[1] >= minor


def traits_of(claim: GpuClaim) -> tuple[GpuTraits, ...]:
    """One for each GPU that the seller's name may mean; of an unknown name, what the seller states of it."""
    if not claim.candidates:
        return (_stated(claim),)
    return tuple(_of_device(load_devices()[key], claim) for key in claim.candidates)


def alike(traits: tuple[GpuTraits, ...]) -> list[GpuTraits]:
    """GPUs in which rules see no difference, as one with all their names."""
    names: dict[GpuTraits, list[str]] = {}
    for gpu in traits:
        names.setdefault(msgspec.structs.replace(gpu, name=""), []).append(gpu.name)
    return [msgspec.structs.replace(gpu, name=", ".join(found)) for gpu, found in names.items()]


def _stated(claim: GpuClaim) -> GpuTraits:
    capability = parse_capability(claim.compute_capability or "")
    vendor = "AMD" if claim.gfx_arch else "NVIDIA" if capability else ""
    return GpuTraits(name=claim.name_raw, vendor=vendor, capability=capability, gfx=claim.gfx_arch or "")


def _of_device(device: Device, claim: GpuClaim) -> GpuTraits:
    stated = parse_capability(claim.compute_capability or "")
    known, gfx = device.compute_capability, device.gfx_arch or ""
    contradicts = (known is not None and stated not in (None, known)) or (
        bool(gfx) and claim.gfx_arch not in (None, gfx)
    )
    return GpuTraits(
        name=device.key,
        vendor=device.vendor,
        capability=None if contradicts else known or stated,
        gfx="" if contradicts else gfx or claim.gfx_arch or "",
        product_class=device.product_class,
        cpu_arch="aarch64" if (device.vendor, device.product_class) == ARM_BESIDE else "",
        contradicts=contradicts,
    )
