"""Which keys of the catalogue a GPU of a scope may mean."""

from __future__ import annotations

from capienza.catalog.devices import load_devices
from capienza.catalog.names import lookup


def gpu_keys(stated: str) -> tuple[str, ...]:
    """The key itself where it is one, with or without the part of the GPU; else every key that the name may mean."""
    if stated.partition("/")[0] in load_devices():
        return (stated,)
    found = lookup(stated)
    part = f"/{found.mig_profile}" if found.mig_profile else ""
    return tuple(f"{key}{part}" for key in found.candidates)
