"""The kinds of value that only the form of evidence has: digests, drivers, lists of words, values of a claim."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from capienza.card.kinds import ONE_VALUE, Kind, text
from capienza.card.problems import Refused, Value, shown
from capienza.errors import Template, template
from capienza.evidence.claims import ANY, configuration_text
from capienza.evidence.drivers import is_range
from capienza.evidence.standing import is_record_id
from capienza.yamlmarks import UNREADABLE

NOT_A_DRIVER = template(
    "records.not-a-driver",
    "expected a version of the driver or a range of them, got {found}",
    "Write it as 550.54.15, or as >=550,<590; in quotes, because of the signs.",
)
LEAST_DIGITS = 8
NOT_WORDS = template("records.not-words", "expected a list of words, got {found}", "Write it as {example}.")
NOT_AN_ID = template(
    "records.not-an-id",
    "expected the id of a record or at least {least} of its first hexadecimal digits, got {found}",
    "`capienza evidence list` shows the ids; write it in quotes.",
)
NOT_A_DIGEST = template(
    "records.not-a-digest",
    "expected a digest of 64 hexadecimal digits, got {found}",
    "`sha256sum FILE` prints it; write it in quotes.",
)


def words(one: Kind, example: str) -> Kind:
    """A list of words, or one alone; each once, in the written order."""

    def convert(value: Value) -> tuple[str, ...]:
        if isinstance(value, dict) or value == []:
            raise Refused(NOT_WORDS(found=shown(value), example=example))
        items = [node.value for node in value] if isinstance(value, list) else [value]
        assert one.convert is not None
        return tuple(dict.fromkeys(one.convert(item) for item in items if item is not UNREADABLE))

    return Kind(text=f"list: {one.text}", convert=convert)


def or_any(kind: Kind) -> Kind:
    """The same kind, or the word with which a document speaks of everything."""

    def convert(value: Value) -> Any:
        assert kind.convert is not None
        return ANY if value == ANY else kind.convert(value)

    return Kind(text=f"{kind.text}, or {ANY}", convert=convert)


def _hexadecimal(refusal: Template) -> Kind:
    def convert(value: Value) -> str:
        found = value.lower() if isinstance(value, str) else ""
        if not is_record_id(found):
            raise Refused(refusal(found=shown(value)))
        return found

    return Kind(text="64 hexadecimal digits", convert=convert)


def is_id_or_beginning(text: str) -> bool:
    """Is it the id of a record, or as many of its first digits as tell it from others?"""
    return re.fullmatch(rf"[0-9a-f]{{{LEAST_DIGITS},64}}", text, re.ASCII) is not None


def _record_id(value: Value) -> str:
    found = value.lower() if isinstance(value, str) else ""
    if not is_id_or_beginning(found):
        raise Refused(NOT_AN_ID(found=shown(value), least=LEAST_DIGITS))
    return found


def _driver(value: Value) -> str:
    if not isinstance(value, str) or not is_range(value):
        raise Refused(NOT_A_DRIVER(found=shown(value)))
    return value


def _claim_value(value: Value) -> str | int | Decimal | bool:
    if isinstance(value, int | Decimal):
        return value
    word: str = text(2000).convert(value)  # type: ignore[misc]
    return word


DIGEST = _hexadecimal(NOT_A_DIGEST)
RECORD_ID = Kind(text="id of a record, or its first digits", convert=_record_id)
DRIVER = or_any(Kind(text="version, or range of versions", convert=_driver))
CLAIM_VALUE = Kind(text="word, number, or size with its unit", convert=_claim_value)
CONFIGURATION = Kind(
    text="options and values, or their list as one text",
    convert=text(4000).convert,
    build=lambda **settings: configuration_text(settings),
    rest_kind=ONE_VALUE,
)
