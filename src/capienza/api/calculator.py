"""`size --params`: the plain calculator, with no model and no card."""

from __future__ import annotations

from decimal import Decimal

from capienza.ledger.arithmetic import USUAL_BITS, PlainRow, plain_row


def arithmetic(parameters: int, bits: Decimal | None = None, reserve_bytes: int | None = None) -> tuple[PlainRow, ...]:
    """The plain calculator: one row for `bits`, or one for each usual width."""
    return tuple(plain_row(parameters, width, reserve_bytes) for width in ((bits,) if bits else USUAL_BITS))
