"""What an unquoted YAML word means: the YAML 1.2 core schema, with exact numbers.

Whole numbers are `int`; numbers with a point or an exponent are `Decimal`, so 0.82 stays 0.82 and 7e9 is exact.
Infinity and not-a-number are refused, and so are numbers too long to be meant, before anything is computed from them.
Source of the rules: YAML 1.2.2, section 10.3.2.
"""

from __future__ import annotations

import enum
import re
from decimal import Decimal

from capienza.errors import Template, template

NUMBER_TOO_LONG = template(
    "yamlmarks.number-too-long",
    "the number {found} is too long or too large to be used",
    "Put it in quotes if it is meant as text.",
)
NOT_FINITE = template(
    "yamlmarks.not-finite",
    "expected a finite number, got {found}",
    "Write the real number, or leave the key out if it is not known.",
)

MAX_NUMBER_LENGTH = 40
MAX_EXPONENT = 40


class Unreadable(enum.Enum):
    """The value of a node whose problem is already reported: nothing more should be said about it."""

    UNREADABLE = "unreadable"


UNREADABLE = Unreadable.UNREADABLE
Scalar = str | int | Decimal | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o([0-7]+)|0x([0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE]([-+]?[0-9]+))?")


def plain_scalar(text: str) -> Scalar | Template:
    """The value of an unquoted word, or the template of what is wrong with it."""
    if text in _WORDS:
        return _WORDS[text]
    return _number(text) if text[0] in "+-.0123456789" else text


def _number(text: str) -> Scalar | Template:
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) <= MAX_NUMBER_LENGTH else NUMBER_TOO_LONG
    if based := _BASED.fullmatch(text):
        if len(text) > MAX_NUMBER_LENGTH:
            return NUMBER_TOO_LONG
        return int(based[1], 8) if based[1] else int(based[2], 16)
    if decimal := _FLOAT.fullmatch(text):
        exponent = decimal[1] or "0"
        if len(text) > MAX_NUMBER_LENGTH or abs(int(exponent)) > MAX_EXPONENT:
            return NUMBER_TOO_LONG
        return Decimal(text)
    return NOT_FINITE if _NOT_FINITE.fullmatch(text) else text
