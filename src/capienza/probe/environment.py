"""The whole environment, and the record that it becomes. Neither holds the name of the machine or of its user."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import msgspec

from capienza import __version__
from capienza.canon import digest_bytes
from capienza.errors import Message, template
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import seal
from capienza.evidence.vocabulary import BYTES
from capienza.probe.gpu import Gpu, catalogue_keys, doubt
from capienza.probe.machine import Machine, probe_machine
from capienza.probe.nvidia import probe_nvidia
from capienza.probe.rocm import probe_rocm

MIXED = template(
    "probe.mixed-gpus",
    "the GPUs are not all alike: the record names none in its scope, and counts for none",
    "run it where only the GPUs of one kind are seen",
)


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine is, what its GPUs are, and what must be known about either."""

    machine: Machine
    gpus: tuple[Gpu, ...]
    cuda_max: str | None
    notes: tuple[Message, ...]


def probe_environment(folder: Path) -> Environment:
    """Look at this machine; `folder` is where the free disk space is asked for. Takes at most some ten seconds."""
    nvidia, rocm = probe_nvidia(), probe_rocm()
    gpus = (*nvidia.gpus, *rocm.gpus)
    doubts = [problem for gpu in gpus if (problem := doubt(gpu)) is not None]
    mixed = [MIXED()] if gpus and not doubts and _place(gpus) == (None, None) else []
    return Environment(
        machine=probe_machine(folder),
        gpus=gpus,
        cuda_max=nvidia.cuda_max,
        notes=(*nvidia.notes, *rocm.notes, *doubts, *mixed),
    )


def environment_record(
    environment: Environment, now: datetime.datetime, offer: str | None = None, provider: str | None = None
) -> Record:
    """The sealed record of a probe: a measurement without a load. GPUs are named by the digest of their UUID."""
    drivers = {gpu.driver_version for gpu in environment.gpus}
    gpu, gpus = _place(environment.gpus)
    return seal(
        Record(
            kind="measurement",
            version="1",
            date=now,
            subject=tuple(
                Subject(name=f"gpu:{one.index}", sha256=digest_bytes(one.uuid.encode(errors="surrogatepass")))
                for one in environment.gpus
                if one.uuid
            ),
            scope=Scope(
                gpu=gpu,
                gpus=gpus,
                driver=drivers.pop() if len(drivers) == 1 else None,
                provider=provider,
                offer=offer,
            ),
            claims=tuple(_claims(environment)),
            method="measure",
            mode="automatic",
            producer={"tool": "capienza", "version": __version__, "class": "environment_probe"},
        )
    )


def _claims(environment: Environment) -> Iterator[Claim]:
    machine = environment.machine
    drivers = sorted({gpu.driver_version for gpu in environment.gpus if gpu.driver_version})
    yield from (Claim(quantity="driver_version", value=driver) for driver in drivers)
    if environment.cuda_max:
        yield Claim(quantity="cuda_max", value=environment.cuda_max)
    for gpu in environment.gpus:
        capability = gpu.compute_capability or gpu.gfx
        if capability:
            yield Claim(quantity="compute_capability", value=capability, gpu_index=gpu.index)
        if gpu.reported_bytes:
            basis = f"ecc {gpu.ecc}" if gpu.ecc else None
            yield Claim(
                quantity="gpu_reported_bytes", value=gpu.reported_bytes, unit=BYTES, gpu_index=gpu.index, basis=basis
            )
    texts = {"cpu_arch": machine.cpu_arch, "os": machine.os, "python_version": machine.python_version}
    yield from (Claim(quantity=name, value=value) for name, value in texts.items() if value)
    if machine.ram_bytes is not None:
        yield Claim(quantity="ram_bytes", value=machine.ram_bytes, unit=BYTES)
    if machine.disk_bytes is not None:
        yield Claim(quantity="disk_bytes", value=machine.disk_bytes, unit=BYTES, basis="free")
    yield from (Claim(quantity=f"package.{name}", value=version) for name, version in machine.packages.items())


def _place(gpus: tuple[Gpu, ...]) -> tuple[str | None, int | None]:
    """The one key that all GPUs have, with the MIG profile that all instances have, and how many there are."""
    names: set[str | None] = set()
    count = 0
    for gpu in gpus:
        keys = catalogue_keys(gpu)
        key = keys[0] if len(keys) == 1 else None
        units = [f"{key}/{profile}" for profile in gpu.instances] if gpu.is_mig else [key]
        names.update(units if key is not None else [None])
        count += len(units)
    if len(names) != 1 or None in names:
        return None, None
    return names.pop(), count
