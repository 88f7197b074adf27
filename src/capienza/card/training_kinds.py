"""The kinds of value that a training option may hold: a word, a flag, a number, names of modules.

A value is kept as it is written (a list of names as one text), because alternatives and records compare what people
wrote; the recipe reads it.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from capienza.card.kinds import NOT_NUMBER, ONE_VALUE, Kind, read_whole
from capienza.card.model import Scalar
from capienza.card.problems import Refused, Value, closest, shown
from capienza.errors import InputError, template
from capienza.yamlmarks import Node

NOT_A_WORD = template("card.not-a-word", "expected one of {accepted}, got {found}", "Write one of these words.")
NOT_A_FLAG = template("card.not-a-flag", "expected true or false, got {found}", "Write true or false.")
NOT_BELOW = template(
    "card.not-below",
    "expected a number from {minimum}, below {maximum}, got {found}",
    "Write the digits alone, with a point for the decimals.",
)
NOT_NAMES = template(
    "card.not-names",
    "expected names of modules, got {found}",
    "Write a list such as [q_proj, v_proj], or one text with spaces between.",
)
NOT_AN_EXPORT = template(
    "card.not-an-export",
    "expected one of {accepted}, or a weight format such as bf16, got {found}",
    "Write one of these words, or the format in which whole weights are handed on.",
)
NOT_A_CONFIGURATION = template(
    "card.not-a-configuration",
    "expected a configuration, keys and values of at most eight levels, got {found}",
    "Write the keys and values, or the path of a JSON file.",
)
_FLAG_TEXTS = {"true": True, "True": True, "false": False, "False": False}
MOST_NAMES = 200
MAX_NAMES = 4000


def words(*accepted: str, flags: bool = False) -> Kind:
    """One of a few words; with `flags` true or false as well."""

    def convert(value: Value) -> Scalar:
        if flags and isinstance(value, bool):
            return value
        if isinstance(value, str) and value in accepted:
            return value
        told = (*accepted, "true", "false") if flags else accepted
        raise Refused(NOT_A_WORD(accepted=told, found=shown(value)), closest(str(value)[:60], accepted))

    text = " or ".join(accepted)
    if not flags:
        return Kind(text=text, schema={"enum": list(accepted)}, convert=convert)
    return Kind(text=f"{text}, or true or false", schema={"enum": [*accepted, True, False]}, convert=convert)


def _flag(value: Value) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _FLAG_TEXTS:
        return _FLAG_TEXTS[value]
    if isinstance(value, int | Decimal) and value in (0, 1):
        return bool(value)
    raise Refused(NOT_A_FLAG(found=shown(value)))


FLAG = Kind(text="true or false", schema={"enum": [True, False, 0, 1, *_FLAG_TEXTS]}, convert=_flag)


EXPORTS = ("none", "adapter", "merge", "full_state")


def _export(value: Value) -> Scalar:
    """One of the words, or a format that whole weights are written in."""
    from capienza.formats.scheme import scheme_named  # only a card that states an export needs the formats

    if isinstance(value, str) and value not in EXPORTS:
        try:
            scheme_named(value)
        except InputError:
            raise Refused(NOT_AN_EXPORT(accepted=EXPORTS, found=shown(value)), closest(value[:60], EXPORTS)) from None
    elif not isinstance(value, str):
        raise Refused(NOT_AN_EXPORT(accepted=EXPORTS, found=shown(value)))
    return value


EXPORT = Kind(
    text="none or adapter or merge or full_state, or a weight format such as bf16",
    schema={"type": "string", "pattern": r"\S"},
    convert=_export,
)
"""What a training hands on; it decides what is held at the end and what is written to disk."""


def amount(least: int, most: int, *, open_end: bool = False, or_none: bool = False) -> Kind:
    """A number from `least` to `most`, the latter left out with `open_end`; `none` is taken where it is said."""

    def convert(value: Value) -> Scalar:
        if or_none and value == "none":
            return "none"
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            number = int(value) if value == int(value) else float(value)
            if least <= number <= most and not (open_end and number == most):
                return number
        refusal = NOT_BELOW if open_end else NOT_NUMBER
        raise Refused(refusal(minimum=str(least), maximum=str(most), found=shown(value)))

    end = "exclusiveMaximum" if open_end else "maximum"
    schema: dict[str, Any] = {"type": "number", "minimum": least, end: most}
    if or_none:
        schema = {"anyOf": [{"const": "none"}, schema]}
    text = f"number, {least} to {most}" + (" (below it)" if open_end else "") + ("; or none" if or_none else "")
    return Kind(text=text, schema=schema, convert=convert)


def count(least: int = 1, most: int = 10**9, *, or_none: bool = False) -> Kind:
    """A whole number; `none` is taken where it is said."""
    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    text = f"whole number, {least} to {most}"
    if not or_none:
        return Kind(text=text, schema=schema, convert=lambda value: read_whole(value, least, most))
    return Kind(
        text=f"{text}; or none",
        schema={"anyOf": [{"const": "none"}, schema]},
        convert=lambda value: "none" if value == "none" else read_whole(value, least, most),
    )


def _names(value: Value) -> Scalar:
    items = [item.value if isinstance(item, Node) else item for item in value] if isinstance(value, list) else [value]
    if not all(isinstance(item, str) and item.strip() for item in items) or len(items) > MOST_NAMES:
        raise Refused(NOT_NAMES(found=shown(value)))
    names = " ".join(" ".join(str(item).replace(",", " ").split()) for item in items)
    if not 0 < len(names) <= MAX_NAMES:
        raise Refused(NOT_NAMES(found=shown(value)))
    return names


def _one_or_names(value: Value) -> Scalar:
    if isinstance(value, list):
        return _names(value)
    found: Scalar = ONE_VALUE.convert(value)  # type: ignore[misc]
    return found


NAMES = Kind(
    text="names of modules, as a list or as one text",
    schema={
        "anyOf": [
            {"type": "string", "pattern": r"[^\s,]", "maxLength": MAX_NAMES},
            {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "minItems": 1, "maxItems": MOST_NAMES},
        ]
    },
    convert=_names,
)

MOST_DEPTH, MAX_CONFIGURATION = 8, 20_000


def _plain(value: Any, depth: int = 0) -> Any:
    """A tree of the card as plain values."""
    value = value.value if isinstance(value, Node) else value
    if depth > MOST_DEPTH:
        raise Refused(NOT_A_CONFIGURATION(found="..."))
    if isinstance(value, dict):
        return {str(key): _plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, depth + 1) for one in value]
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise Refused(NOT_A_CONFIGURATION(found=shown(value)))


def _configuration(value: Value) -> Scalar:
    """Keys and values as one text in JSON; a path, a word or a list of words as it is written."""
    if isinstance(value, dict):
        text = json.dumps(_plain(value), ensure_ascii=False)
        if len(text) > MAX_CONFIGURATION:
            raise Refused(NOT_A_CONFIGURATION(found=shown(text)))
        return text
    return _one_or_names(value)


CONFIGURATION = Kind(
    text="keys and values, or the path of a JSON file",
    schema={"anyOf": [{"type": "object"}, {"type": ["string", "boolean"]}, {"type": "array"}]},
    convert=_configuration,
)
"""A launcher's configuration, kept as one text."""

OWN_OPTION = Kind(
    text="text, number, true or false, or a list of names",
    schema={
        "anyOf": [
            ONE_VALUE.schema,
            {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "minItems": 1, "maxItems": MOST_NAMES},
        ]
    },
    convert=_one_or_names,
)
"""What an option may hold that is written by a framework's own name."""
