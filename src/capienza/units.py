"""Bytes, money and ranges: the only room that parses or prints a size.

Legend: B byte; kB MB GB TB PB powers of 1000; KiB MiB GiB TiB PiB powers of 1024. Inside the library
memory is an `int` number of bytes; a decimal or binary unit appears only in text read or written here.
Source of the prefixes: IEC 80000-13 (binary), SI (decimal).
"""

from __future__ import annotations

import datetime
import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import NewType

import msgspec

Bytes = NewType("Bytes", int)

KIB, MIB, GIB, TIB, PIB = (1024**power for power in range(1, 6))
UNITS: dict[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGTP", start=1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", start=1)},
}
ACCEPTED_UNITS = ", ".join(UNITS)
MAX_BYTES = 2**63 - 1
"""Largest size accepted anywhere: what a signed 64-bit file offset can address."""

MAX_MONEY = 10**12
"""Largest price, fee or cap accepted anywhere, in whatever currency."""
_WIDE = Context(prec=1000)
"""For printing: rounding to decimals refuses a number with more digits than the precision."""

_SIZE = r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*"
_WITH_COMMAS = r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+|,[0-9]{1,2})?"
_DURATION = r"\s*([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*(h|hours?|d|days?)\s*"
MAX_DAYS = 3650
"""Longest age or validity accepted anywhere."""
_MONEY = r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Z]{3})\s*"


class QuantityError(ValueError):
    """A size or an amount of money could not be read.

    `found` is the text as written, `accepted` says what would have been understood.
    """

    def __init__(self, found: str, accepted: str) -> None:
        super().__init__(f"expected {accepted}, got {found!r}")
        self.found = found
        self.accepted = accepted


class Range(msgspec.Struct, frozen=True):
    """Three figures in bytes: provable `floor`, `expected`, and `ceiling` (DESIGN rule 5).

    Raises `ValueError` when they are negative or out of order.
    """

    floor: int
    expected: int
    ceiling: int

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= self.expected <= self.ceiling:
            message = (
                f"a range needs 0 <= floor <= expected <= ceiling, got {self.floor}, {self.expected}, {self.ceiling}"
            )
            raise ValueError(message)

    @classmethod
    def exact(cls, amount_bytes: int) -> Range:
        """The range of a figure that is known to the byte."""
        return cls(amount_bytes, amount_bytes, amount_bytes)

    @property
    def is_exact(self) -> bool:
        """True when the three figures coincide."""
        return self.floor == self.ceiling

    def __add__(self, other: Range) -> Range:
        """Sum of two needs that are live at the same moment."""
        return Range(
            self.floor + other.floor,
            self.expected + other.expected,
            self.ceiling + other.ceiling,
        )

    def largest(self, other: Range) -> Range:
        """Figure by figure maximum: the need of two phases that follow each other."""
        return Range(
            max(self.floor, other.floor),
            max(self.expected, other.expected),
            max(self.ceiling, other.ceiling),
        )


NOTHING = Range(0, 0, 0)


class Money(msgspec.Struct, frozen=True):
    """A decimal amount in one currency (ISO 4217). Amounts in different currencies never mix."""

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{self.amount:f} {self.currency}"


class NumberMarks(msgspec.Struct, frozen=True):
    """How a language writes numbers: decimal mark and group mark."""

    decimal: str = "."
    group: str = ","


ENGLISH_MARKS = NumberMarks()


def parse_size(text: str) -> Bytes:
    """Read "6 GiB", "80 GB" or "24564 MiB" into bytes, rounded to the nearest byte.

    Raises `QuantityError` for a missing, unknown or ambiguous unit ("8k", "80 G"), a sign, or a size
    above `MAX_BYTES`.
    """
    match = re.fullmatch(_SIZE, text, re.ASCII) if len(text) <= 64 else None
    factor = UNITS.get(match[2]) if match else None
    if match is None or factor is None:
        raise QuantityError(text[:64], f"a number and one of {ACCEPTED_UNITS}, such as 6 GiB")
    amount = (Decimal(match[1]) * factor).to_integral_value(ROUND_HALF_EVEN)
    if amount > MAX_BYTES:
        raise QuantityError(text[:64], f"at most {MAX_BYTES} B")
    return Bytes(int(amount))


def parse_money(text: str) -> Money:
    """Read "47.14 USD". Raises `QuantityError` for a sign, a thousands mark or no currency."""
    match = re.fullmatch(_MONEY, text, re.ASCII) if len(text) <= 64 else None
    if match is None:
        raise QuantityError(text[:64], "a decimal amount and a three-letter currency, such as 47.14 USD")
    return Money(Decimal(match[1]), match[2])


def parse_duration(text: str) -> datetime.timedelta:
    """Read "7 days", "36 hours", "7d" or "36h". Raises `QuantityError` for another unit, zero, or over `MAX_DAYS`."""
    match = re.fullmatch(_DURATION, text, re.ASCII) if len(text) <= 64 else None
    seconds = Decimal(match[1]) * (86_400 if match[2][0] == "d" else 3600) if match else Decimal(0)
    if not 0 < seconds <= MAX_DAYS * 86_400:
        raise QuantityError(text[:64], f"hours or days such as 7 days, at most {MAX_DAYS} days")
    return datetime.timedelta(seconds=float(seconds))


def meant_size(text: str) -> str | tuple[str, str] | None:
    """The size that "6", "6G" or "6 gb" probably stands for, as it should be written; None when nobody can tell.

    Two of them where it may be either.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgtp])(i?)(b?))?\s*", text[:40].lower(), re.ASCII)
    if match is None:
        return None
    amount, prefix, binary, unit = match[1], (match[2] or "g").upper(), match[3], match[4]
    decimal = "k" if prefix == "K" else prefix
    if binary:
        return f"{amount} {prefix}iB"
    return f"{amount} {decimal}B" if unit else (f"{amount} {decimal}B", f"{amount} {prefix}iB")


def meant_money(text: str) -> str | None:
    """The amount that "220$", "1,000 usd" or "47,14 EUR" probably stands for.

    Only a currency that is written is ever suggested. A comma parts thousands, or one or two decimals.
    """
    match = re.fullmatch(rf"([$€£¥]?)\s*({_WITH_COMMAS})\s*([A-Za-z]{{3}}|[$€£¥])?", text.strip()[:40], re.ASCII)
    if match is None:
        return None
    whole, _, decimals = match[2].partition(",")
    is_decimal_comma = len(decimals) in (1, 2) and decimals.isdigit()
    amount = Decimal(f"{whole}.{decimals}" if is_decimal_comma else match[2].replace(",", ""))
    currency = _SIGNS.get(match[1]) or _SIGNS.get(match[3] or "") or (match[3] or "").upper()
    return f"{amount:f} {currency}" if currency else None


_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}


def format_number(value: int | Decimal | float, decimals: int = 0, marks: NumberMarks = ENGLISH_MARKS) -> str:
    """A number in the language's own marks, rounded half to even."""
    text = f"{Decimal(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN, _WIDE):,f}"
    return text.translate({ord(","): marks.group, ord("."): marks.decimal})


def format_size(amount_bytes: int, unit: str = "GiB", decimals: int = 2, marks: NumberMarks = ENGLISH_MARKS) -> str:
    """Print bytes in one named unit: `format_size(24 * 10**9)` is "22.35 GiB"."""
    if unit == "B":
        return f"{format_number(amount_bytes, 0, marks)} B"
    return f"{format_number(Decimal(amount_bytes) / UNITS[unit], decimals, marks)} {unit}"


def telling_unit(amount_bytes: int) -> str:
    """The largest of GiB, MiB, KiB and B of which an amount is at least a tenth: 2 MiB are not "0.00 GiB"."""
    return next(
        (unit for unit in ("GiB", "MiB", "KiB") if 10 * abs(amount_bytes) >= UNITS[unit]),
        "B" if amount_bytes else "GiB",
    )


def format_money(money: Money, marks: NumberMarks = ENGLISH_MARKS) -> str:
    """Print an amount with at least two decimals and its currency."""
    exponent = money.amount.normalize().as_tuple().exponent
    decimals = max(2, -exponent if isinstance(exponent, int) else 2)
    return f"{format_number(money.amount, decimals, marks)} {money.currency}"
