"""A run with everything that is made of it: what `measure` returns, and reports show."""

from __future__ import annotations

from pathlib import Path

import msgspec

from capienza.card.model import Card
from capienza.errors import Message
from capienza.evidence.record import Record
from capienza.measure.observed import Part
from capienza.measure.run import Run
from capienza.measure.stage import Coverage, Stage


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One phase on one GPU: what was predicted, and the readings beside it, by counter."""

    phase: str
    scope: str
    device: str
    floor_bytes: int | None
    expected_bytes: int | None
    ceiling_bytes: int | None
    is_complete: bool
    observed_bytes: dict[str, int]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its stage, its record and the prediction beside it."""

    card: Card
    stage: Stage
    run: Run
    coverage: Coverage
    plan: str | None
    record: Record | None
    record_path: Path | None
    parts: tuple[Part, ...]
    phases: tuple[Compared, ...]
    findings: tuple[Message, ...]
