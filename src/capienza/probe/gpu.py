"""One GPU of this machine, and which of the catalogue it may be."""

from __future__ import annotations

import msgspec

from capienza.catalog.names import lookup
from capienza.errors import Message, template
from capienza.units import MIB

SEVERAL_NAMES = template(
    "probe.gpu-ambiguous",
    "GPU {index} ({name}) may be any of {candidates}",
    "compare its memory and form factor with `capienza devices`",
)
UNKNOWN_NAME = template("probe.gpu-unknown", "GPU {index}: the catalogue knows no {name}")


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as its driver names it. `instances` are its MIG profiles, `gfx` the architecture of one of AMD.

    In MIG mode `reported_bytes` is None: the total is that of the whole, which no program can have.
    """

    index: int
    name: str
    uuid: str | None = None
    driver_version: str | None = None
    reported_bytes: int | None = None
    compute_capability: str | None = None
    gfx: str | None = None
    ecc: str | None = None
    is_mig: bool = False
    instances: tuple[str, ...] = ()


def catalogue_keys(gpu: Gpu) -> tuple[str, ...]:
    """The keys of the catalogue that name and reported total leave."""
    memory = f"{gpu.reported_bytes // MIB} MiB" if gpu.reported_bytes else None
    return lookup(gpu.name, memory).candidates


def doubt(gpu: Gpu) -> Message | None:
    """Why the GPU has no single key in the catalogue; None when it has one."""
    keys = catalogue_keys(gpu)
    if len(keys) == 1:
        return None
    if keys:
        return SEVERAL_NAMES(index=gpu.index, name=gpu.name, candidates=keys)
    return UNKNOWN_NAME(index=gpu.index, name=gpu.name)
