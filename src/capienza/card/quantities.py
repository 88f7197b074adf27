"""Sizes and money of a card. `units` reads them; this says what was probably meant when it refuses."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

from capienza.card.kinds import Kind
from capienza.card.problems import Refused, Value, shown
from capienza.errors import template
from capienza.units import (
    ACCEPTED_UNITS,
    MAX_BYTES,
    MAX_DAYS,
    MAX_MONEY,
    UNITS,
    Bytes,
    Money,
    QuantityError,
    meant_money,
    meant_size,
    parse_duration,
    parse_money,
    parse_size,
)

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
NOT_A_PERCENTAGE = template(
    "card.not-a-percentage",
    "expected a percentage from 0 % to {maximum} %, such as 20 %, got {found}",
    "Write a number and the sign %.",
)
NOT_WORK = template(
    "card.not-work",
    "expected a number of tokens such as 120e6 tokens, from 1 to {maximum}, got {found}",
    "Write the number and the word tokens.",
)
NOT_A_RECORD_ID = template(
    "card.not-a-record-id",
    "expected the id of a record, or at least its first {least} characters, got {found}",
    "It is the name of the record's file, without .json.",
)

MAX_PERCENT = Decimal(100)
MAX_WORK_TOKENS = 10**15
RECORD_ID_CHARACTERS = 8
"""How much of an id names a record in a folder of any size."""

NOT_A_DURATION = template(
    "card.not-a-duration",
    "expected hours or days, such as 7 days, got {found}",
    "Write a number and hours or days: at most {maximum} days.",
)

_SIZE_PATTERN = rf"^\s*[0-9]+(\.[0-9]+)?\s*({'|'.join(UNITS)})\s*$"
_DURATION_PATTERN = r"^\s*[0-9]{1,6}(\.[0-9]{1,3})?\s*(h|hours?|d|days?)\s*$"
_MONEY_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*[A-Z]{3}\s*$"
_PERCENT = r"\s*([0-9]{1,3}(\.[0-9]{1,6})?)\s*%\s*"
_WORK = r"\s*([0-9]{1,16}(\.[0-9]{1,15})?(e[0-9]{1,2})?)\s*tokens\s*"
_RECORD_ID = rf"[0-9a-f]{{{RECORD_ID_CHARACTERS},64}}"


def read_size(value: Value) -> Bytes:
    """A size with its unit, such as "6 GiB". Raises `Refused`."""
    try:
        return parse_size(value if isinstance(value, str) else "")
    except QuantityError as error:
        if error.accepted.endswith(f"{MAX_BYTES} B"):
            raise Refused(SIZE_TOO_LARGE(maximum=MAX_BYTES, found=shown(value))) from None
        raise Refused(NOT_A_SIZE(units=ACCEPTED_UNITS, found=shown(value)), meant_size(_written(value))) from None


def _money(value: Value) -> Money:
    try:
        money = parse_money(value if isinstance(value, str) else "")
    except QuantityError:
        raise Refused(NOT_MONEY(found=shown(value)), meant_money(_written(value))) from None
    if money.amount > MAX_MONEY:
        raise Refused(MONEY_TOO_LARGE(maximum=f"{MAX_MONEY} {money.currency}", found=shown(value)))
    return money


def _duration(value: Value) -> datetime.timedelta:
    try:
        return parse_duration(value if isinstance(value, str) else "")
    except QuantityError:
        number = _written(value)
        meant = f"{number} days" if number.replace(".", "", 1).isdecimal() else None
        raise Refused(NOT_A_DURATION(maximum=MAX_DAYS, found=shown(value)), meant) from None


def _percentage(value: Value) -> Decimal:
    match = re.fullmatch(_PERCENT, value, re.ASCII) if isinstance(value, str) else None
    if match is None or (percent := Decimal(match[1])) > MAX_PERCENT:
        written = _written(value)
        meant = f"{written} %" if re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?", written, re.ASCII) else None
        raise Refused(NOT_A_PERCENTAGE(maximum=f"{MAX_PERCENT:f}", found=shown(value)), meant)
    return percent


def _work(value: Value) -> int:
    match = re.fullmatch(_WORK, value, re.ASCII) if isinstance(value, str) else None
    if match is None or not 1 <= (tokens := Decimal(match[1])) <= MAX_WORK_TOKENS or tokens != int(tokens):
        raise Refused(NOT_WORK(maximum=MAX_WORK_TOKENS, found=shown(value)))
    return int(tokens)


def _record_id(value: Value) -> str:
    if isinstance(value, str) and re.fullmatch(_RECORD_ID, value, re.ASCII):
        return value
    # A beginning of digits alone is a number to YAML.
    is_number = isinstance(value, int) and re.fullmatch(_RECORD_ID, str(value), re.ASCII)
    raise Refused(NOT_A_RECORD_ID(least=RECORD_ID_CHARACTERS, found=shown(value)), f'"{value}"' if is_number else None)


def _written(value: Value) -> str:
    """A value as it stands in the file; empty for one that is no text and no number."""
    return str(value) if isinstance(value, str | int | Decimal) and not isinstance(value, bool) else ""


SIZE = Kind(
    text="size with its unit, such as 6 GiB", schema={"type": "string", "pattern": _SIZE_PATTERN}, convert=read_size
)
MONEY = Kind(
    text="amount with its currency, such as 300 USD",
    schema={"type": "string", "pattern": _MONEY_PATTERN},
    convert=_money,
)
DURATION = Kind(
    text="hours or days, such as 7 days", schema={"type": "string", "pattern": _DURATION_PATTERN}, convert=_duration
)
PERCENTAGE = Kind(
    text="percentage, such as 20 %", schema={"type": "string", "pattern": f"^{_PERCENT}$"}, convert=_percentage
)
WORK = Kind(
    text="number of tokens, such as 120e6 tokens", schema={"type": "string", "pattern": f"^{_WORK}$"}, convert=_work
)
RECORD_ID = Kind(
    text="id of a record, or its beginning", schema={"type": "string", "pattern": f"^{_RECORD_ID}$"}, convert=_record_id
)
