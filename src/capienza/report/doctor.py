"""What this machine is, as a document and as JSON (`capienza.doctor/1`). No UUID is shown whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capienza.evidence.record import Record
from capienza.i18n.translator import Say
from capienza.probe.environment import Environment
from capienza.probe.gpu import Gpu, catalogue_keys
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data, sentence
from capienza.report.tool import TOOL

DOCTOR_SCHEMA = "capienza.doctor/1"


def doctor_data(environment: Environment, record: Record | None, path: Path | None) -> dict[str, Any]:
    """Everything that was found; null is not known."""
    machine = environment.machine
    return {
        "schema": DOCTOR_SCHEMA,
        "tool": TOOL,
        "machine": {
            "os": machine.os,
            "cpu_arch": machine.cpu_arch,
            "python_version": machine.python_version,
            "ram_bytes": machine.ram_bytes,
            "disk_bytes": machine.disk_bytes,
        },
        "cuda_max": environment.cuda_max,
        "gpus": [_gpu_data(gpu) for gpu in environment.gpus],
        "packages": machine.packages,
        "notes": [message_data(note) for note in environment.notes],
        "record": None if record is None else {"id": record.id, "path": str(path)},
    }


def doctor_document(environment: Environment, record: Record | None, path: Path | None, say: Say) -> Document:
    """The machine, its GPUs, the packages that matter, and what must be known."""
    machine, unknown = environment.machine, say("unknown")
    facts = (
        (say("system"), machine.os or unknown),
        (say("processor"), machine.cpu_arch or unknown),
        (say("memory"), unknown if machine.ram_bytes is None else say.size(machine.ram_bytes)),
        (say("free on disk"), unknown if machine.disk_bytes is None else say.size(machine.disk_bytes)),
        ("Python", machine.python_version),
        (say("newest CUDA of the driver"), environment.cuda_max or unknown),
    )
    blocks: list[Block] = [Heading(say("This machine"), 1), Table(columns=(say("what"), say("value")), rows=facts)]
    blocks += _gpus(environment.gpus, say)
    packages = tuple(machine.packages.items())
    blocks.append(Heading(say("Packages of this Python")))
    blocks.append(
        Table(columns=(say("package"), say("version")), rows=packages)
        if packages
        else Paragraph(say("None of those that matter is installed."))
    )
    if environment.notes:
        blocks += [Heading(say("Notes")), Items(tuple(sentence(note, say) for note in environment.notes))]
    if record is not None:
        blocks.append(Paragraph(say("Recorded as {path}.", path=str(path))))
    return tuple(blocks)


def _gpus(gpus: tuple[Gpu, ...], say: Say) -> list[Block]:
    if not gpus:
        return [Paragraph(say("No GPU was found."))]
    rows = tuple(
        (
            str(gpu.index),
            gpu.name,
            ", ".join(catalogue_keys(gpu)) or say("unknown"),
            say("unknown") if gpu.reported_bytes is None else say.size(gpu.reported_bytes),
            gpu.compute_capability or gpu.gfx or say("unknown"),
            gpu.driver_version or say("unknown"),
            gpu.ecc or "",
            ", ".join(gpu.instances),
        )
        for gpu in gpus
    )
    columns = (
        "GPU", say("name"), say("may be"), say("reported memory"), say("capability"), say("driver"), "ECC", "MIG",
    )  # fmt: skip
    return [Heading("GPU"), Table(columns=columns, rows=rows, numeric=(3,), whole=(1,))]


def _gpu_data(gpu: Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "candidates": catalogue_keys(gpu),
        "reported_bytes": gpu.reported_bytes,
        "compute_capability": gpu.compute_capability,
        "gfx": gpu.gfx,
        "driver_version": gpu.driver_version,
        "ecc": gpu.ecc,
        "mig": gpu.is_mig,
        "instances": gpu.instances,
    }
