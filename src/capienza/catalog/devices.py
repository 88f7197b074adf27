"""The devices that ship with the package, and the capacities that follow from every figure collected.

Legend, MiB of one device unless a name says bytes:
    nominal   the seller's number; a binary count in disguise, never below what is reported
    reported  the driver's total (`nvidia-smi memory.total`, `rocm-smi` VRAM total)
    CUDA total  what `cudaMemGetInfo` and torch give, below reported on Linux
    inline ECC  error correction kept in the memory itself: with it on, a GDDR5 or GDDR6 card reports 15/16

    largest  = the most that is reported with ECC off; from an ECC-on figure, ceil((reported + 1) x 16 / 15), because a
               reported MiB may hide a fraction; never above nominal x 1024; nominal x 1024 when nothing is reported
    smallest = the least that is reported with ECC on; from an ECC-off figure, floor(reported x 15 / 16)

Old drivers print reported without the part they reserve: such figures are another quantity and are left out.
Source of the 15/16: pairs seen on the same card, 49140 -> 46068 (A40, L40), 16384 -> 15360, 24576 -> 23040.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from capienza.catalog import basis
from capienza.catalog.device import Device
from capienza.errors import Message
from capienza.units import GIB, MIB

DATA = Path(__file__).parent / "data"
ECC_NUMERATOR, ECC_DENOMINATOR = 15, 16
_REPORTED_KINDS = ("nvidia-smi memory.total", "rocm-smi VRAM total")
_NOT_COMPARABLE = ("old driver", "doctored")
Row = dict[str, str]


class Figure(NamedTuple):
    """One reported total in MiB and the ECC state it was seen with: on, off, n/a, or empty for not recorded."""

    mib: int
    ecc: str


class Bound(NamedTuple):
    """A capacity in MiB, None when unknown, and where it comes from."""

    mib: int | None
    basis: Message


def table(name: str) -> list[Row]:
    """The rows of one shipped table; an empty cell means unknown."""
    import csv  # not needed by commands that look up no device

    with (DATA / name).open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows)
        return [dict(zip(header, row, strict=True)) for row in rows]


@functools.cache
def load_devices() -> dict[str, Device]:
    """Every known GPU by its key, in the order of the table. Read once for each process."""
    observations: defaultdict[str, list[Row]] = defaultdict(list)
    for row in table("gpu_memory_observations.csv"):
        if row["mib"] and not any(word in row["note"] for word in _NOT_COMPARABLE):
            observations[row["gpu_key"]].append(row)
    return {row["gpu_key"]: _device(row, observations[row["gpu_key"]]) for row in table("gpus.csv")}


def _device(row: Row, observations: list[Row]) -> Device:
    figures = [Figure(int(seen["mib"]), seen["ecc"]) for seen in observations if seen["kind"] in _REPORTED_KINDS]
    if row["reported_mib"]:
        figures.append(Figure(int(row["reported_mib"]), row["reported_ecc"]))
    inline_ecc = row["memory_type"].startswith(("GDDR5", "GDDR6"))
    top, bottom = largest(row["nominal_gb"], figures, inline_ecc), smallest(figures, inline_ecc)
    cuda = cuda_total(_cuda_figures(row, observations), top.mib, bottom.mib)
    capability = row["compute_capability"]
    return Device(
        key=row["gpu_key"],
        name=row["marketing_name"],
        vendor=row["vendor"],
        product_class=row["product_class"],
        nominal_gb=row["nominal_gb"],
        devices_per_board=int(row["devices_per_board"] or 1),
        reported_bytes=int(row["reported_mib"]) * MIB if row["reported_mib"] else None,
        reported_ecc=row["reported_ecc"] or None,
        largest_bytes=(top.mib or 0) * MIB,
        largest_basis=top.basis,
        smallest_bytes=bottom.mib * MIB if bottom.mib else None,
        smallest_basis=bottom.basis,
        cuda_total_bytes=cuda.mib * MIB if cuda.mib else None,
        cuda_total_basis=cuda.basis,
        compute_capability=tuple(int(part) for part in capability.split(".")) if capability else None,  # type: ignore[arg-type]
        gfx_arch=row["gfx_arch"] or None,
        memory_type=row["memory_type"] or None,
        notes=row["notes"],
        sources=row["sources"],
    )


def largest(nominal_gb: str, figures: list[Figure], inline_ecc: bool) -> Bound:
    """The most that a GPU of this name can report, with ECC off where that matters."""
    nominal_mib = int(nominal_gb) * GIB // MIB
    if not figures:
        return Bound(nominal_mib, basis.NOMINAL(gigabytes=nominal_gb))
    seen = max(figure.mib for figure in figures)
    if inline_ecc and all(figure.ecc == "on" for figure in figures):
        undone = -(-(seen + 1) * ECC_DENOMINATOR // ECC_NUMERATOR)
        return Bound(min(undone, nominal_mib), basis.ECC_UNDONE(mib=seen))
    return Bound(min(seen, nominal_mib), basis.LARGEST(mib=seen))


def smallest(figures: list[Figure], inline_ecc: bool) -> Bound:
    """The least that a GPU of this name can report, with ECC on where the card offers it."""
    if not figures:
        return Bound(None, basis.NO_TOTAL())
    seen = min(figure.mib for figure in figures)
    states = {figure.ecc for figure in figures}
    if inline_ecc and "off" in states and "on" not in states:
        with_ecc = seen * ECC_NUMERATOR // ECC_DENOMINATOR
        return Bound(with_ecc, basis.ECC_TAKEN(mib=seen))
    text = basis.SMALLEST if inline_ecc or states <= {"on", "n/a"} else basis.LOSSLESS
    return Bound(seen, text(mib=seen))


def cuda_total(figures: list[Figure], largest_mib: int | None, smallest_mib: int | None) -> Bound:
    """The least CUDA total: from a figure seen with ECC off, less what ECC takes of the reported total."""
    if not figures:
        return Bound(None, basis.NO_CUDA())
    seen = min(figures)
    if largest_mib and smallest_mib and largest_mib > smallest_mib and all(figure.ecc == "off" for figure in figures):
        taken = largest_mib - smallest_mib
        return Bound(seen.mib - taken, basis.CUDA_LESS_ECC(mib=seen.mib, taken=taken))
    return Bound(seen.mib, basis.CUDA_SEEN(mib=seen.mib))


def _cuda_figures(row: Row, observations: list[Row]) -> list[Figure]:
    """CUDA totals seen on Linux; on Windows torch shows reported - 1 MiB, which says nothing of Linux."""
    figures = [
        Figure(int(seen["mib"]), seen["ecc"])
        for seen in observations
        if seen["kind"] not in _REPORTED_KINDS and "windows" not in seen["note"].lower()
    ]
    if row["cuda_total_mib"] and not figures:
        figures.append(Figure(int(row["cuda_total_mib"]), row["reported_ecc"]))
    return figures


@functools.cache
def mig_profiles() -> dict[tuple[str, str], Row]:
    """The rows of MIG instances by device key and profile."""
    return {(row["gpu_key"], row["profile"]): row for row in table("mig.csv")}


def usual_cuda_share() -> Fraction:
    """What CUDA shows of the driver's total with ECC on: the median over the NVIDIA cards where both are known."""
    shares = sorted(
        Fraction(device.cuda_total_bytes, device.smallest_bytes)
        for device in load_devices().values()
        if device.cuda_total_bytes and device.smallest_bytes and device.vendor == "NVIDIA"
    )
    return shares[len(shares) // 2]
