"""Numbers between their written and their exact form."""

from __future__ import annotations

from decimal import Decimal


def exact(value: float | None) -> Decimal | None:
    """The decimal that was written: 23.5 is 23.5, 24.0 is 24."""
    if value is None:
        return None
    return Decimal(int(value)) if value == int(value) else Decimal(repr(value))


def plain_number(value: float) -> str:
    """The number without an exponent or needless zeros: 80, 0.5."""
    return f"{exact(value):f}"
