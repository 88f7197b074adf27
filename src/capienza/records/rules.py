"""What a form must state for its class, and what its statements rule out, each with the key to look at."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from decimal import Decimal

from capienza.card.moments import end_of, start_of
from capienza.card.problems import closest
from capienza.card.rules import Found, Problems
from capienza.errors import Message, template, with_suggestion
from capienza.evidence import claims as words
from capienza.evidence.claims import ANY
from capienza.evidence.vocabulary import OUTCOMES
from capienza.records.amounts import EXAMPLE_OF, UNIT_OF, is_amount
from capienza.records.classes import CLASSES, SPECIAL, may_have
from capienza.records.draft import VERSION
from capienza.records.fields import CHILDREN
from capienza.records.gpu import gpu_keys
from capienza.records.quantities import NAMES
from capienza.units import ACCEPTED_UNITS, UNITS, QuantityError, meant_size, parse_size

UNKNOWN_VERSION = template(
    "records.unknown-version",
    "this program reads version {known} of the form, got {found}",
    "Write evidence: {known}, or use the release of Capienza that the form was written for.",
)
NEEDED = template("records.needed", "a {kind} must state {key}", "Add it, such as {example}.")
NOT_OF_THIS_KIND = template("records.not-of-this-kind", "a {kind} has no {key}", "Delete the key, or correct the kind.")
NO_ZONE = template(
    "records.date-without-zone",
    "a bare date needs timezone, or the hour with its offset",
    "Write timezone: Europe/Rome, or 2026-11-30T12:00Z.",
)
EXPIRES_BEFORE = template("records.expires-before-its-date", "it expires before its date", "Correct one of the two.")
NO_DOCUMENT = template(
    "records.document-without-anything",
    "the document has neither a name nor an address nor a file",
    "Write document: {{name: order 17, file: order-17.pdf}}.",
)
NOT_BYTES = template(
    "records.not-a-size",
    "expected a size with its unit, such as 18 GiB, got {found}",
    "Write a number and one of {units}.",
)
TWO_UNITS = template("records.two-units", "the value has its unit already", "Delete the unit here.")
NOT_ACCEPTED = template("records.claim-not-accepted", "{quantity} is one of {accepted}, got {found}", "Correct it.")
NOT_AN_AMOUNT = template(
    "records.not-an-amount",
    "{quantity} is a number above 0 with its unit, such as {example}, got {found}",
    "Write {quantity}={example} as an option, or the unit as a key of its own in a form.",
)
NEGATIVE = template("records.negative", "{quantity} cannot be below 0, got {found}", "Correct the value.")
PARTS_MISSING = template("records.reading-incomplete", "a reading of memory needs {missing}", "Add it to the claim.")
UNLIKE = template("records.quantity-unlike", "no verdict reads {found}", "Correct the name.")
AMBIGUOUS_GPU = template(
    "records.gpu-ambiguous", "{found} may be any of {candidates}", "Write the key of the one that it speaks of."
)

SLIP = 0.85
"""A quantity that is nearly one that verdicts read is a slip of the pen; short names are like too many others."""
SLIPS = tuple(name for name in NAMES if len(name) > 5)
READING = ("phase", "counter")


def contradictions(found: Found) -> Problems:
    """Everything in a form that its kind asks for or rules out, and that its other statements contradict."""
    yield from _version(found)
    yield from _by_kind(found)
    yield from _dates(found)
    yield from _document(found)
    yield from _gpu(found)
    yield from _claims(found)


def _version(found: Found) -> Problems:
    stated = found.values.get("evidence", VERSION)
    if stated != VERSION:
        yield "evidence", UNKNOWN_VERSION(known=VERSION, found=stated)


def _by_kind(found: Found) -> Problems:
    kind = found.values.get("kind")
    if kind not in CLASSES:
        return
    for key in CLASSES[kind].required:
        if key not in found.nodes and not (key == "scope" and _is_rate(found)):
            yield "", NEEDED(kind=kind, key=key, example=f"{key}: {CHILDREN[''][key].example}")
    for key in SPECIAL:
        if key in found.nodes and not may_have(kind, key):
            yield key, NOT_OF_THIS_KIND(kind=kind, key=key)


def _is_rate(found: Found) -> bool:
    """Does it state exchange rates alone? They hold for every offer, so no scope is asked for."""
    quantities = {value for path, value in found.values.items() if re.fullmatch(r"claims\[[0-9]+\]\.quantity", path)}
    return quantities == {words.EXCHANGE_RATE}


def _dates(found: Found) -> Problems:
    stated = {key: found.values[key] for key in ("date", "expires") if key in found.values}
    zone = found.values.get("timezone")
    bare = [key for key, moment in stated.items() if not isinstance(moment, datetime.datetime)]
    if bare and zone is None:
        if "timezone" not in found.nodes:
            yield from ((key, NO_ZONE()) for key in bare)
    elif len(stated) == 2 and end_of(stated["expires"], zone) <= start_of(stated["date"], zone):
        yield "expires", EXPIRES_BEFORE()


def _document(found: Found) -> Problems:
    if "document" in found.nodes and not any(f"document.{key}" in found.nodes for key in CHILDREN["document"]):
        yield "document", NO_DOCUMENT()


def _gpu(found: Found) -> Problems:
    stated = found.values.get("scope.gpu")
    if stated is None or stated == ANY:
        return
    candidates = gpu_keys(stated)
    if len(candidates) > 1:
        yield "scope.gpu", AMBIGUOUS_GPU(found=stated[:60], candidates=candidates)


def _claims(found: Found) -> Iterator[tuple[str, Message]]:
    for path in found.nodes:
        match = re.fullmatch(r"(claims\[[0-9]+\])\.quantity", path)
        if match and path in found.values:
            yield from _claim(found, match[1], found.values[path])


def _claim(found: Found, path: str, quantity: str) -> Problems:
    value = found.values.get(f"{path}.value")
    near = closest(quantity, SLIPS, SLIP)
    if near is not None and quantity not in NAMES:
        yield f"{path}.quantity", with_suggestion(UNLIKE(found=quantity[:60]), near)
    if quantity == words.PEAK:
        missing = [key for key in READING if f"{path}.{key}" not in found.nodes]
        if missing:
            yield f"{path}.quantity", PARTS_MISSING(missing=missing)
    if value is None:
        return
    accepted = {words.OUTCOME: OUTCOMES, words.COMPATIBILITY: (words.SATISFIED, words.VIOLATED)}.get(quantity)
    if accepted is not None and value not in accepted:
        suggestion = closest(str(value), accepted)
        message = NOT_ACCEPTED(quantity=quantity, accepted=accepted, found=str(value)[:60])
        yield f"{path}.value", with_suggestion(message, suggestion)
    unit = found.values.get(f"{path}.unit")
    if quantity in UNIT_OF and not is_amount(quantity, value, unit):
        stated = f"{value} {unit or ''}".strip()[:60]
        yield f"{path}.value", NOT_AN_AMOUNT(quantity=quantity, example=EXAMPLE_OF[quantity], found=stated)
        return
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and value < 0 and quantity in NAMES:
        yield f"{path}.value", NEGATIVE(quantity=quantity, found=str(value))
    if quantity.endswith("_bytes") or unit in UNITS:
        yield from _size(path, str(value), unit)


def _size(path: str, value: str, unit: str | None) -> Problems:
    """A size is written with its unit, in the value or beside it."""
    try:
        parse_size(f"{value} {unit}" if unit else value)
    except QuantityError:
        if unit is not None and _is_size(value):
            yield f"{path}.unit", TWO_UNITS()
            return
        yield f"{path}.value", with_suggestion(NOT_BYTES(found=value[:60], units=ACCEPTED_UNITS), meant_size(value))


def _is_size(text: str) -> bool:
    try:
        parse_size(text)
    except QuantityError:
        return False
    return True
