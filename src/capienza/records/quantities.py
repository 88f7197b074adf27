"""What a record may state, once: its unit, and the criteria that read it.

The names of metrics are not here: an evaluation states those that the card asks for. A test compares the names with
those that verdicts look for, which stand on a higher floor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from capienza.evidence import claims as words
from capienza.evidence.record import Record

PACKAGE = "package."
"""`package.vllm`, with the version as value."""
OWN_NAMES = ("quality_result", "plan", "outputs", "waiver", "decision", "prediction")
"""Kinds of record that name metrics, criteria, offers or entries of the ledger."""


class Quantity(NamedTuple):
    """One quantity. `unit` "" is a word or a number without one; no `criteria`: kept, and read by no verdict."""

    name: str
    unit: str
    criteria: tuple[str, ...]
    meaning: str


QUANTITIES = (
    Quantity(words.OUTCOME, "", ("workload", "compatibility", "memory"), "`completed`, `out_of_memory` or `failed`."),
    Quantity(words.PEAK, "B", ("memory",), "The most memory in use, with `phase`, `counter` and `gpu`."),
    Quantity(words.CONTEXT, "B", ("memory",), "What the driver's context takes on the measured GPU."),
    Quantity("gpu_reported_bytes", "B", ("memory",), "The total that the driver reports, with `gpu`."),
    Quantity("cuda_total_bytes", "B", ("memory",), "The total that CUDA reports, with `gpu`."),
    Quantity(words.TRUNCATED, "", ("workload",), "Inputs that were cut: 0 says that none was."),
    Quantity(words.DROPPED, "", ("workload",), "Samples that were left out: 0 says that none was."),
    Quantity(words.POOL, "", ("workload",), "Tokens that the engine's cache holds at once, from its log."),
    Quantity(words.COMPATIBILITY, "", ("compatibility",), "`satisfied` or `violated`."),
    Quantity(f"{PACKAGE}NAME", "", ("compatibility",), "The installed version of a package, such as `package.vllm`."),
    Quantity("compute_capability", "", ("compatibility",), "Of an NVIDIA GPU, such as 8.9."),
    Quantity("gfx_arch", "", ("compatibility",), "Of an AMD GPU, such as gfx942."),
    Quantity("driver_version", "", ("compatibility",), "The GPU driver."),
    Quantity("cuda_max", "", ("compatibility",), "The newest CUDA that the driver runs."),
    Quantity("rocm", "", ("compatibility",), "The ROCm version."),
    Quantity("cpu_arch", "", ("compatibility",), "The kind of processor."),
    Quantity("ram_bytes", "B", ("placement",), "Main memory of one server."),
    Quantity("disk_bytes", "B", ("placement",), "Disk space of one server."),
    Quantity("gpus_per_node", "", ("placement",), "GPUs in one server."),
    Quantity("gpu_link", "", ("placement",), "`nvlink`, `pcie`, `xgmi` or `none`."),
    Quantity("managed_application", "", ("placement",), "An application that is ready to use."),
    Quantity("starts_at", "", ("budget",), "From when the GPUs can be used: a date-time with offset."),
    Quantity(words.EXCHANGE_RATE, "EUR/USD", ("budget",), "1.08 in EUR/USD: one EUR costs 1.08 USD."),
    Quantity("duration_hours", "h", ("budget",), "Hours that a step takes; `basis` is the name of the step."),
    Quantity("tokens_per_second", "tokens/s", ("budget",), "Of a measured run: tokens of all sequences together."),
    Quantity("os", "", (), "The operating system."),
    Quantity("python_version", "", (), "The Python that ran."),
)
NAMES = tuple(one.name for one in QUANTITIES)


def unread(record: Record) -> Iterable[str]:
    """The quantities of a record that are in no list: verdicts read nothing from them."""
    if record.kind in OWN_NAMES:
        return ()
    stated = dict.fromkeys(claim.quantity for claim in record.claims)
    return (name for name in stated if name not in NAMES and name != words.PLANNED_RUNS and not _is_package(name))


def _is_package(name: str) -> bool:
    return name.startswith(PACKAGE) and name != PACKAGE
