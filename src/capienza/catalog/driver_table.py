"""The driver that each CUDA toolkit ships with, as rules: an older one of the same major runs it with less.

What minor-version compatibility accepts at least is a rule of its own in `rules.csv`; a driver below that is refused.
Drivers are those of Linux. Updates of a toolkit ("13.0U1") are left out: an engine names the toolkit alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.catalog.devices import table
from capienza.catalog.release import parse_release
from capienza.catalog.rules import Rule

ENGINES = ("vllm", "sglang")
UPDATE = "U"


def driver_rules() -> Iterator[Rule]:
    """One for each toolkit, newest first."""
    for row in table("cuda_drivers.csv"):
        if UPDATE not in row["toolkit"]:
            yield Rule(
                id=f"cuda.driver.{row['toolkit']}",
                software="cuda",
                source=row["source"],
                violation="slower",
                engines=ENGINES,
                first=parse_release(row["toolkit"]),
                last=parse_release(row["toolkit"]),
                subjects=("host",),
                vendor="NVIDIA",
                package="driver",
                needs=row["linux_driver"],
            )
