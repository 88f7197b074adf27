"""The GPUs that `nvidia-smi` lists.

Legend: its sizes are MiB; a cell in brackets ("[N/A]", "[Not Supported]") is not known. In MIG mode the total is that
of the whole GPU: the instances are what can be used, and the program does not print their sizes apart.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

import msgspec

from capienza.errors import Message, template
from capienza.probe.ask import FAILED, Answer, ask
from capienza.probe.gpu import Gpu
from capienza.units import MIB

NOT_UNDERSTOOD = template("probe.line-not-understood", "{program} wrote a line that was not understood: {line}")
MORE_LINES = template("probe.more-lines", "{program} wrote {count} more lines that were not understood")
NO_GPU = template("probe.no-gpu", "{program} names no GPU")
IN_MIG_MODE = template(
    "probe.mig-mode",
    "GPU {index} is in MIG mode with {instances}: the memory of an instance is not recorded",
    "read it in a program that runs on the instance",
)
NO_INSTANCES = template("probe.mig-empty", "GPU {index} is in MIG mode without any instance: nothing can run on it")

PROGRAM = "nvidia-smi"
FIELDS = (
    "index",
    "name",
    "uuid",
    "driver_version",
    "memory.total",
    "mig.mode.current",
    "ecc.mode.current",
    "compute_cap",
)
OLD_FIELDS = FIELDS[:5]
"""What also those drivers print that do not know the other fields."""
MAX_GPUS = 1024
MAX_MIB = 2**30
SHOWN_LINES = 3
_CUDA = re.compile(r"CUDA Version\s*:\s*([0-9]{1,3}\.[0-9]{1,3})", re.ASCII)
_LISTED = re.compile(r"^(?:GPU ([0-9]{1,4}):|\s+MIG ([0-9a-z.+]{1,32})\s+Device)", re.ASCII | re.MULTILINE)
_VERSION = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){1,3}", re.ASCII)
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}", re.ASCII)


class Nvidia(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs, the newest CUDA that their driver takes, and what must be known about them."""

    gpus: tuple[Gpu, ...] = ()
    cuda_max: str | None = None
    notes: tuple[Message, ...] = ()


def probe_nvidia() -> Nvidia:
    """Ask `nvidia-smi`. Nothing that it does raises, and it is not asked again when it does not answer."""
    answer = _query(FIELDS)
    if answer.problem is not None and answer.problem.code == FAILED.code and "not a valid field" in answer.text:
        answer = _query(OLD_FIELDS)
    if answer.problem is not None:
        return Nvidia(notes=(answer.problem,))
    notes: list[Message] = []
    gpus = tuple(_gpus(answer.text, notes))
    if not gpus:
        return Nvidia(notes=(*notes, NO_GPU(program=PROGRAM)))
    if any(gpu.is_mig for gpu in gpus):
        gpus = _with_instances(gpus, notes)
    details = ask((PROGRAM, "-q", "-d", "MEMORY"))
    found = _CUDA.search(details.text) if details.problem is None else None
    return Nvidia(gpus=gpus, cuda_max=found[1] if found else None, notes=tuple(notes))


def _query(fields: Sequence[str]) -> Answer:
    return ask((PROGRAM, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"))


def _gpus(text: str, notes: list[Message]) -> Iterator[Gpu]:
    others = []
    for line in text.splitlines()[: 2 * MAX_GPUS]:
        cells = [cell.strip() for cell in next(csv.reader([line[:1000]]), [])]
        if len(cells) in (len(FIELDS), len(OLD_FIELDS)) and re.fullmatch(r"[0-9]{1,4}", cells[0], re.ASCII):
            yield _gpu(dict(zip(FIELDS, cells, strict=False)))
        elif line.strip():
            others.append(line.strip()[:120])
    notes += [NOT_UNDERSTOOD(program=PROGRAM, line=line) for line in others[:SHOWN_LINES]]
    if len(others) > SHOWN_LINES:
        notes.append(MORE_LINES(program=PROGRAM, count=len(others) - SHOWN_LINES))


def _gpu(cells: dict[str, str]) -> Gpu:
    is_mig = cells.get("mig.mode.current") == "Enabled"
    total = cells["memory.total"]
    known = not is_mig and total.isascii() and total.isdigit() and 0 < int(total[:20]) <= MAX_MIB
    ecc = cells.get("ecc.mode.current", "")
    return Gpu(
        index=int(cells["index"]),
        name=cells["name"][:120],
        uuid=cells["uuid"] if cells["uuid"].startswith("GPU-") else None,
        driver_version=_matching(_VERSION, cells["driver_version"]),
        reported_bytes=int(total) * MIB if known else None,
        compute_capability=_matching(_CAPABILITY, cells.get("compute_cap", "")),
        ecc={"Enabled": "on", "Disabled": "off"}.get(ecc),
        is_mig=is_mig,
    )


def _with_instances(gpus: tuple[Gpu, ...], notes: list[Message]) -> tuple[Gpu, ...]:
    """The GPUs with the profiles of their instances, which only the list of devices names."""
    answer = ask((PROGRAM, "-L"))
    if answer.problem is not None:
        notes.append(answer.problem)
        return gpus
    profiles: dict[int, list[str]] = {}
    current: list[str] = []
    for match in _LISTED.finditer(answer.text):
        if match[1]:
            current = profiles.setdefault(int(match[1]), [])
        else:
            current.append(match[2])
    placed = []
    for gpu in gpus:
        instances = tuple(profiles.get(gpu.index, ()))
        if gpu.is_mig:
            known = IN_MIG_MODE(index=gpu.index, instances=instances) if instances else NO_INSTANCES(index=gpu.index)
            notes.append(known)
        placed.append(msgspec.structs.replace(gpu, instances=instances if gpu.is_mig else ()))
    return tuple(placed)


def _matching(pattern: re.Pattern[str], text: str) -> str | None:
    return text if pattern.fullmatch(text) else None
