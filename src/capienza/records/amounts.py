"""Quantities that are a number in one unit, which may be written beside the value or in it: "1.16 EUR/USD"."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeVar

from capienza.evidence.claims import EXCHANGE_RATE

UNIT_OF = {
    EXCHANGE_RATE: re.compile(r"[A-Z]{3}/[A-Z]{3}", re.ASCII),
    "tokens_per_second": re.compile("tokens/s"),
    "duration_hours": re.compile("h"),
}
EXAMPLE_OF = {EXCHANGE_RATE: "1.16 EUR/USD", "tokens_per_second": "480 tokens/s", "duration_hours": "5.5 h"}
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)
T = TypeVar("T")


def amount_of(quantity: str, value: T, unit: str | None) -> tuple[T | str, str | None]:
    """Value and unit apart, where the text of such a quantity holds both; as they are where it does not."""
    if quantity not in UNIT_OF or unit is not None or not isinstance(value, str):
        return value, unit
    number, _, rest = value.strip().partition(" ")
    return (number, rest.strip()) if rest else (value, unit)


def is_amount(quantity: str, value: object, unit: str | None) -> bool:
    """Is it a number above 0 in the unit of the quantity?"""
    number, stated = amount_of(quantity, value, unit)
    text = f"{number:f}" if isinstance(number, Decimal) else str(number)
    return (
        bool(
            stated and UNIT_OF[quantity].fullmatch(stated) and _NUMBER.fullmatch(text) and not isinstance(number, bool)
        )
        and Decimal(text) > 0
    )
