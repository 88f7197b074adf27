"""`devices`: the GPUs of the catalogue."""

from __future__ import annotations

from capienza.catalog.device import Device
from capienza.catalog.devices import load_devices
from capienza.catalog.names import resolve


def devices(name: str | None = None) -> tuple[Device, ...]:
    """Every GPU known, or those that `name` may mean. Raises `InputError` for a name that is not known."""
    known = load_devices()
    keys = known if name is None else resolve(name).candidates
    return tuple(known[key] for key in keys)
