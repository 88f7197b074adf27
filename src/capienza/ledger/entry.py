"""One line of the ledger: an amount with its origin, formula and source, or an unknown with what would settle it."""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.errors import Message
from capienza.ledger.phase import Phase
from capienza.units import Range

Status = Literal["chosen", "estimated", "measured", "unknown"]


class Input(msgspec.Struct, frozen=True):
    """A value that a formula used, and where it was read."""

    name: str
    value: str | int
    source: Message


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one kind on one device in some phases.

    `amount` is None exactly when `status` is unknown; then `needs` names the inputs that are missing and
    `expected_proof` says what would establish the figure. `formula` has its numbers filled in. `device` is
    "gpu:0", "gpu:1", ... or "host". Raises `ValueError` when amount and status contradict each other.
    """

    name: str
    phases: tuple[Phase, ...]
    device: str
    amount: Range | None
    status: Status
    inputs: tuple[Input, ...] = ()
    formula: Message | None = None
    source: Message | None = None
    needs: tuple[str, ...] = ()
    expected_proof: Message | None = None

    def __post_init__(self) -> None:
        if (self.amount is None) != (self.status == "unknown"):
            message = f"entry {self.name}: status {self.status} with amount {self.amount}"
            raise ValueError(message)
        if self.status == "unknown" and (self.expected_proof is None or not self.needs):
            message = f"unknown entry {self.name} must state what it needs and the proof expected"
            raise ValueError(message)
