"""How much the card of a case holds: what CUDA reported, or what the catalogue says of the card that is named."""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Mapping
from typing import Any

import msgspec

from capienza.catalog.asked import claim_of
from capienza.catalog.capacity import capacity_of
from capienza.catalog.devices import load_devices
from capienza.errors import InputError
from capienza.validate.row_serving import measured_bytes

_ASIDE = re.compile(r"\([^)]*\)|\bclass\b|\bnvidia\b", re.IGNORECASE)
_GUESSED = ("inferred", "not named", "-class", "modded", "unified")


class Capacity(msgspec.Struct, frozen=True):
    """`is_least` is false where the card may hold less: nothing is then known to fit."""

    total_bytes: int
    is_least: bool = True


def row_capacity(row: Mapping[str, Any]) -> Capacity | None:
    """The stated CUDA total; else the catalogue's, or its usual part of what the driver reports, of a named card."""
    stated = measured_bytes(row, "total_gpu_memory")
    if stated is not None:
        return Capacity(stated)
    name = str(row.get("gpu") or "")
    if not name or any(word in name.lower() for word in _GUESSED):
        return None
    try:
        found = capacity_of(claim_of(_ASIDE.sub(" ", name).strip()))
    except InputError:
        return None
    if found.cuda_total_bytes is not None:
        return Capacity(found.cuda_total_bytes)
    if found.smallest_bytes is not None:
        return Capacity(int(found.smallest_bytes * cuda_share()))
    return (
        Capacity(int(found.largest_bytes * cuda_share()), is_least=False) if found.largest_bytes is not None else None
    )


@functools.cache
def cuda_share() -> float:
    """The part of what the driver reports that CUDA has, in the middle of the catalogue's cards that state both."""
    return statistics.median(
        device.cuda_total_bytes / device.smallest_bytes
        for device in load_devices().values()
        if device.cuda_total_bytes and device.smallest_bytes
    )
