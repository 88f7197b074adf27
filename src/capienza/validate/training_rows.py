"""Training cases: listed, and skipped until training is predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from capienza.validate.scored import Scored

NOTHING: Mapping[str, Any] = {"phase": "none"}
NOT_YET = "training is not predicted yet"


def training_row(row: Mapping[str, Any]) -> Iterator[Scored]:
    """One skipped quantity for each counter of the case."""
    arch = row.get("arch")
    listed = row["measured"] if isinstance(row["measured"], list) else []
    readings: list[Mapping[str, Any]] = [reading for reading in listed if isinstance(reading, Mapping)]
    for reading in readings or [NOTHING]:
        amount = reading.get("bytes")
        yield Scored(
            id=str(row["id"]),
            quantity=f"{reading.get('counter_kind') or 'unknown'}.{reading.get('phase') or 'peak'}",
            engine=str(row.get("framework") or "?"),
            arch=str(arch.get("architecture") or "?") if isinstance(arch, Mapping) else "?",
            weight_format=str(row.get("weight_dtype") or "?"),
            model=str(row.get("model") or "?"),
            measured=amount if isinstance(amount, int | float) else None,
            status="skipped",
            reason=NOT_YET,
        )
