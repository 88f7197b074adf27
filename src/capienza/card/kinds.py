"""The kinds of value a card may hold: what is accepted, its JSON Schema, and how a written value becomes ours.

A converter takes the value of one node of the YAML tree and returns what the card keeps. What it does not accept it
refuses by raising `Refused`, with the likely correction where there is one; it never guesses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from capienza.card.problems import Refused, Value, closest, shown
from capienza.errors import InputError, template

NOT_TEXT = template("card.not-text", "expected text, got {found}", "Put it in quotes if it is meant as text.")
TEXT_LENGTH = template(
    "card.text-length",
    "expected text of 1 to {maximum} characters, got {length}",
    "Shorten it, or delete the key if there is nothing to say.",
)
TEXT_LINES = template("card.text-lines", "expected text on one line, got {found}", "Write it on one line.")
NOT_WHOLE = template(
    "card.not-a-whole-number",
    "expected a whole number from {minimum} to {maximum}, got {found}",
    "Write the digits alone, without a unit, a letter or a group mark.",
)
NOT_NUMBER = template(
    "card.not-a-number",
    "expected a number from {minimum} to {maximum}, got {found}",
    "Write the digits alone, with a point for the decimals.",
)
NOT_A_CHOICE = template("card.not-a-choice", "expected one of {accepted}, got {found}", "Write one of these words.")
NOT_A_MODEL_ID = template(
    "card.not-a-model-id",
    "expected a Hub id such as Qwen/Qwen3-8B, got {found}",
    "Write organisation/name; a folder or a file goes under path.",
)
NOT_A_SCALAR = template(
    "card.not-one-value",
    "expected one value (text, a number, true or false), got {found}",
    "Write a list or a mapping as one text in quotes.",
)

MODEL_ID = r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?"
_LETTERS = {"k": 3, "m": 6, "b": 9, "g": 9, "t": 12}


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of value.

    `convert` reads a scalar; `build` makes the value of a mapping from its fields, or of each item of a list when
    `many` is true. Where `rest_kind` is given, keys that the table does not list are free: their values are of that
    kind and go to the argument of `build` named by `rest`, or each to its own when that is empty. `rest_names` are free
    keys that are known: they are no slip of the pen, and dashes in them and in listed keys are as good as underscores.
    """

    text: str
    schema: dict[str, Any] = {}
    convert: Callable[[Value], Any] | None = None
    build: Callable[..., Any] | None = None
    many: bool = False
    rest: str = ""
    rest_kind: Kind | None = None
    rest_names: frozenset[str] = frozenset()


def text(maximum: int = 200, *, lines: bool = False) -> Kind:
    """Text of 1 to `maximum` characters, on one line unless `lines`."""

    def convert(value: Value) -> str:
        if not isinstance(value, str):
            raise Refused(NOT_TEXT(found=shown(value)), f'"{shown(value)}"')
        if not 0 < len(value.strip()) <= len(value) <= maximum:
            raise Refused(TEXT_LENGTH(maximum=maximum, length=len(value.strip())))
        if "\n" in value and not lines:
            raise Refused(TEXT_LINES(found=shown(value)))
        return value

    pattern = r"\S" if lines else r"^[^\n]*\S[^\n]*$"
    schema = {"type": "string", "maxLength": maximum, "pattern": pattern}
    return Kind(text="text", schema=schema, convert=convert)


def read_whole(value: Value, minimum: int, maximum: int) -> int:
    """A whole number within bounds; 7e9 is one, "8k" and 8.5 are not. Raises `Refused`."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        found = int(value)
        if found == value and minimum <= found <= maximum:
            return found
    refusal = NOT_WHOLE(minimum=minimum, maximum=maximum, found=shown(value))
    raise Refused(refusal, _meant_number(value, minimum, maximum))


def whole(minimum: int, maximum: int) -> Kind:
    """A whole number."""
    return Kind(
        text=f"whole number, {minimum} to {maximum}",
        schema={"type": "integer", "minimum": minimum, "maximum": maximum},
        convert=lambda value: read_whole(value, minimum, maximum),
    )


def number(minimum: Decimal, maximum: Decimal) -> Kind:
    """A decimal number, kept exactly as written."""

    def convert(value: Value) -> Decimal:
        if isinstance(value, int | Decimal) and not isinstance(value, bool) and minimum <= value <= maximum:
            return Decimal(value)
        raise Refused(NOT_NUMBER(minimum=f"{minimum:f}", maximum=f"{maximum:f}", found=shown(value)))

    schema = {"type": "number", "minimum": float(minimum), "maximum": float(maximum)}
    return Kind(text=f"number, {minimum:f} to {maximum:f}", schema=schema, convert=convert)


def choice(*accepted: str) -> Kind:
    """One of a few words."""

    def convert(value: Value) -> str:
        if isinstance(value, str) and value in accepted:
            return value
        raise Refused(NOT_A_CHOICE(accepted=accepted, found=shown(value)), closest(shown(value), accepted))

    return Kind(text=" or ".join(accepted), schema={"enum": list(accepted)}, convert=convert)


def _model_id(value: Value) -> str:
    if isinstance(value, str) and len(value) <= 200 and re.fullmatch(MODEL_ID, value):
        return value
    raise Refused(NOT_A_MODEL_ID(found=shown(value)))


def _one_value(value: Value) -> str | int | float | bool:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, str | int):
        return value
    raise Refused(NOT_A_SCALAR(found=shown(value)))


def _meant_number(value: Value, minimum: int, maximum: int) -> str | tuple[str, str] | None:
    """The number that "8k", "7B", "1,000" or "8" in quotes probably stand for, as it should be written."""
    match = re.fullmatch(
        r"\s*([0-9]{1,3}(?:[_, ][0-9]{3})+|[0-9]+(?:\.[0-9]+)?)\s*([kKmMbBgGtT]?)\s*", str(value)[:40], re.ASCII
    )
    if match is None or not isinstance(value, str):
        return None
    amount = Decimal(re.sub("[_, ]", "", match[1]))
    exponent = _LETTERS.get(match[2].lower(), 0)
    readings = [amount.scaleb(exponent)]
    if exponent == 3:
        readings.append(amount * 1024)
    meant = [str(int(reading)) for reading in readings if reading == int(reading) and minimum <= reading <= maximum]
    return (meant[0], meant[1]) if len(meant) == 2 else next(iter(meant), None)


PROSE = text(2000, lines=True)
"""A sentence: in a mapping in braces it may hold commas without quotes."""


def _weight_format(value: Value) -> str:
    """A format that weights can be computed in; the names are those of `formats.scheme`."""
    from capienza.formats.scheme import scheme_named  # only a card that states a format needs them

    name: str = text().convert(value)  # type: ignore[misc]
    try:
        scheme_named(name)
    except InputError as error:
        raise Refused(error.message) from None
    return name


WEIGHT_FORMAT = Kind(text="weight format", schema=text().schema, convert=_weight_format)
MODEL_REFERENCE = Kind(
    text="Hub id", schema={"type": "string", "pattern": f"^{MODEL_ID}$", "maxLength": 200}, convert=_model_id
)
ONE_VALUE = Kind(
    text="text, number, true or false", schema={"type": ["string", "number", "boolean"]}, convert=_one_value
)
