"""Sizes and money of a card. `units` reads them; this says what was probably meant when it refuses."""

from __future__ import annotations

import re
from decimal import Decimal

from capienza.card.kinds import Kind
from capienza.card.problems import Refused, Value, shown
from capienza.errors import template
from capienza.units import ACCEPTED_UNITS, MAX_BYTES, UNITS, Bytes, Money, QuantityError, parse_money, parse_size

NOT_A_SIZE = template(
    "card.not-a-size",
    "expected a size with its unit, such as 6 GiB, got {found}",
    "Write a number and one of {units}: GB is 10^9 bytes, GiB is 2^30 bytes.",
)
SIZE_TOO_LARGE = template(
    "card.size-too-large", "expected at most {maximum} B, got {found}", "Check the number and its unit."
)
NOT_MONEY = template(
    "card.not-money",
    "expected an amount with its currency, such as 300 USD, got {found}",
    "Write the digits without group marks, a point for the decimals, and three letters for the currency.",
)
MONEY_TOO_LARGE = template(
    "card.money-too-large", "expected at most {maximum}, got {found}", "Check the number of digits."
)

MAX_MONEY = 10**12
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_SIZE_PATTERN = rf"^\s*[0-9]+(\.[0-9]+)?\s*({'|'.join(UNITS)})\s*$"
_MONEY_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*[A-Z]{3}\s*$"


def _size(value: Value) -> Bytes:
    try:
        return parse_size(value if isinstance(value, str) else "")
    except QuantityError as error:
        if error.accepted.endswith(f"{MAX_BYTES} B"):
            raise Refused(SIZE_TOO_LARGE(maximum=MAX_BYTES, found=shown(value))) from None
        raise Refused(NOT_A_SIZE(units=ACCEPTED_UNITS, found=shown(value)), _meant_size(value)) from None


def _meant_size(value: Value) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgtp])(i?)(b?))?\s*", str(value)[:40].lower(), re.ASCII)
    if match is None:
        return None
    amount, prefix, binary, unit = match[1], (match[2] or "g").upper(), match[3], match[4]
    decimal = "k" if prefix == "K" else prefix
    if binary:
        return f"{amount} {prefix}iB"
    return f"{amount} {decimal}B" if unit else f"{amount} {decimal}B or {amount} {prefix}iB"


def _money(value: Value) -> Money:
    try:
        money = parse_money(value if isinstance(value, str) else "")
    except QuantityError:
        raise Refused(NOT_MONEY(found=shown(value)), _meant_money(value)) from None
    if money.amount > MAX_MONEY:
        raise Refused(MONEY_TOO_LARGE(maximum=f"{MAX_MONEY} {money.currency}", found=shown(value)))
    return money


def _meant_money(value: Value) -> str | None:
    """Only a currency that is written is ever suggested."""
    if not isinstance(value, str):
        return None
    match = re.fullmatch(r"([$€£¥]?)\s*([0-9][0-9,]*(?:\.[0-9]+)?)\s*([A-Za-z]{3}|[$€£¥])?", value.strip()[:40])
    if match is None:
        return None
    amount = Decimal(match[2].replace(",", ""))
    currency = _SIGNS.get(match[1]) or _SIGNS.get(match[3] or "") or (match[3] or "").upper()
    return f"{amount:f} {currency}" if currency else None


SIZE = Kind(
    text="size with its unit, such as 6 GiB", schema={"type": "string", "pattern": _SIZE_PATTERN}, convert=_size
)
MONEY = Kind(
    text="amount with its currency, such as 300 USD",
    schema={"type": "string", "pattern": _MONEY_PATTERN},
    convert=_money,
)
