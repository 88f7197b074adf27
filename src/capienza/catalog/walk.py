"""Every structural problem of one offer at once: unknown, missing and mistyped keys, each with its place.

The decoder stops at its first problem; this walk follows the same types over the marked tree and goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec

from capienza.catalog.convert import NOT_A_MOMENT
from capienza.catalog.flat import NOT_A_DAY, not_money, not_size
from capienza.catalog.notes import Notes, Path
from capienza.errors import Message, template
from capienza.units import QuantityError, parse_money, parse_size
from capienza.yamlmarks import UNREADABLE, Node

UNKNOWN_KEY = template("catalog.unknown-key", "no key of an offer is called {found}", "Accepted: {accepted}.")
UNKNOWN_KEY_NEAR = template(
    "catalog.unknown-key-near",
    "no key of an offer is called {found}",
    "Did you mean {near}? Accepted: {accepted}.",
)
MISSING_KEY = template("catalog.missing-key", "{key} is missing", "An offer needs it: add it, or ask the seller.")
NOT_TEXT = template("catalog.not-text", "expected text, got {found}", "Put it in quotes if it is meant as text.")
NOT_LINE = template(
    "catalog.not-one-line",
    "expected one line of text, up to 200 characters, got {found}",
    "Put it in quotes if it is meant as text; leave the key out when it is not stated.",
)
NOT_COUNT = template(
    "catalog.not-count",
    "expected a whole number from 1 to {maximum}, got {found}",
    "Leave the key out when the number is not known: zero is a value, and not one that can be bought.",
)
NOT_POSITIVE = template(
    "catalog.not-positive",
    "expected a number above 0 and at most {maximum}, got {found}",
    "Leave the key out when it is not known: zero is a value.",
)
NOT_QUANTITY = template(
    "catalog.not-quantity", "expected a number from 0 to {maximum}, got {found}", "Write digits and a point."
)
NOT_PERCENT = template(
    "catalog.not-percent-number", "expected a percentage from 0 to 100, got {found}", "Write the number."
)
NOT_TRUTH = template(
    "catalog.not-true-or-false", "expected true or false, got {found}", "Leave the key out when it is not stated."
)
NOT_AMOUNT = template(
    "catalog.not-amount",
    'expected decimal text such as "0.40", got {found}',
    "Put the amount in quotes, without sign, currency or thousands mark; null means that it is not known.",
)
NOT_CURRENCY = template(
    "catalog.not-currency",
    "expected a currency such as USD, got {found}",
    "Write its three capital letters (ISO 4217).",
)
NOT_COUNTRY = template(
    "catalog.not-country", "expected a country such as IT, got {found}", "Write its two capital letters (ISO 3166)."
)
NOT_CAPABILITY = template(
    "catalog.not-capability", "expected a compute capability such as 8.9, got {found}", "Put it in quotes."
)
NOT_GFX = template(
    "catalog.not-gfx", "expected an architecture such as gfx942, got {found}", "`rocminfo` prints it on that machine."
)
NOT_PROFILE = template(
    "catalog.not-mig-profile",
    "expected a MIG profile such as 3g.40gb, got {found}",
    "Read the profile with `nvidia-smi mig -lgip` on that machine.",
)
NOT_WORD = template(
    "catalog.not-word",
    "expected one of {accepted}, got {found}",
    "Write one of them; a key that is not required may be left out.",
)
NOT_WORD_NEAR = template("catalog.not-word-near", "expected one of {accepted}, got {found}", "Did you mean {near}?")
NOT_MAPPING = template("catalog.not-mapping", "expected keys and values, got {found}", "Write them as {example}.")
NOT_LIST = template(
    "catalog.not-list", "expected a list, got {found}", "Write each item after a dash, such as {example}."
)

OFFER = "{id: l4-a, provider: seller, gpu: L4, cards: 1, days: 3, total: 60 USD}"
EXAMPLES = {
    "fees": "{kind: setup, amount: 50 USD, unit: once}",
    "host": "{ram: 64 GiB}",
    "document": "{id: sheet-12}",
    "candidates": "H100 SXM",
    "gpu": "{name_raw: H100 SXM}",
    "price": '{kind: total, amount: "60.00", currency: USD, term_hours: 72}',
}
"""What could stand under each key that holds others."""
SLIPS = {"price": "total", "amount": "total", "cost": "total", "count": "cards", "gpus": "cards", "quantity": "cards"}
"""Words that a seller's sheet uses for keys of the flat form that are spelt quite otherwise."""

_BY_TITLE: dict[str, Callable[..., Message]] = {
    "line": NOT_LINE,
    "text": NOT_TEXT,
    "amount": NOT_AMOUNT,
    "count": NOT_COUNT,
    "positive": NOT_POSITIVE,
    "quantity": NOT_QUANTITY,
    "percent": NOT_PERCENT,
    "currency": NOT_CURRENCY,
    "country": NOT_COUNTRY,
    "capability": NOT_CAPABILITY,
    "gfx": NOT_GFX,
    "mig profile": NOT_PROFILE,
    "moment": NOT_A_MOMENT,
    "day or moment": NOT_A_DAY,
}
_QUANTITIES: dict[str, Callable[[str], object]] = {"money": parse_money, "size": parse_size}


def check(node: Node, form: type[msgspec.Struct], notes: Notes, strict: bool, path: Path = ()) -> None:
    """Note every problem of `node` as a `form`. With `strict` off, text may stand for a number (CSV)."""
    members = node.value
    if not isinstance(members, dict):
        if members is not UNREADABLE:
            notes.problem(NOT_MAPPING(found=shown(node), example=_example(path)), *path)
        return
    known = _fields(form)
    for key in members:
        if key not in known:
            notes.problem(unknown_key(key, known), *path, key)
    for key, field in known.items():
        child = members.get(key)
        if child is None:
            if field.required:
                notes.problem(MISSING_KEY(key=key), *path)
        elif child.value is not UNREADABLE:
            _check_value(child, field.type, notes, strict, (*path, key))


def _check_value(node: Node, kind: Any, notes: Notes, strict: bool, path: Path) -> None:
    if node.value is None and _is_optional(kind):
        return
    inner = _stated(kind)
    item = _list_item(inner)
    if item is not None:
        if not isinstance(node.value, list):
            notes.problem(NOT_LIST(found=shown(node), example=f"- {_example(path)}"), *path)
            return
        for index, child in enumerate(node.value):
            _check_value(child, item, notes, strict, (*path, index))
    elif isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        check(node, inner, notes, strict, path)
    else:
        try:
            msgspec.convert(plain(node), kind, strict=strict)
            _QUANTITIES.get(_title(inner), str)(str(node.value))
        except (msgspec.ValidationError, QuantityError):
            notes.problem(_refusal(node, inner), *path)


def _is_optional(kind: Any) -> bool:
    return NoneType in get_args(kind)


def _stated(kind: Any) -> Any:
    """The type of a value that is stated: the one beside null."""
    return next(option for option in get_args(kind) if option is not NoneType) if _is_optional(kind) else kind


def _list_item(kind: Any) -> Any:
    """The type of the items, when `kind` is a list with or without limits."""
    bare = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    return get_args(bare)[0] if get_origin(bare) is list else None


def _refusal(node: Node, kind: Any) -> Message:
    found = shown(node)
    if get_origin(kind) is Literal:
        words = get_args(kind)
        near = _near(str(node.value)[:60].lower().replace(" ", "_"), words)
        accepted = ", ".join(words)
        return (
            NOT_WORD_NEAR(found=found, accepted=accepted, near=near)
            if near
            else NOT_WORD(found=found, accepted=accepted)
        )
    if kind is bool:
        return NOT_TRUTH(found=found)
    title = _title(kind)
    if title in _QUANTITIES:
        return (not_money if title == "money" else not_size)(str(node.value))
    maximum = next((meta.le for meta in getattr(kind, "__metadata__", ()) if meta.le is not None), None)
    limit = {} if maximum is None else {"maximum": f"{maximum:.0f}"}
    return _BY_TITLE[title](found=found, **limit)


def _example(path: Path) -> str:
    """What could stand at `path`, which holds keys and values."""
    return next((EXAMPLES[str(key)] for key in reversed(path) if str(key) in EXAMPLES), OFFER)


def _title(kind: Any) -> str:
    return next((str(meta.title) for meta in getattr(kind, "__metadata__", ())), "text")


def unknown_key(key: str, known: Collection[str]) -> Message:
    """The message for a key that the form does not have, with the nearest one that it has."""
    slip = SLIPS.get(key.lower())
    near = slip if slip in known else _near(key[:60], known)
    accepted = ", ".join(known)
    return (
        UNKNOWN_KEY_NEAR(found=key[:60], near=near, accepted=accepted)
        if near
        else UNKNOWN_KEY(found=key[:60], accepted=accepted)
    )


def _near(word: str, known: Iterable[str]) -> str:
    import difflib

    return "".join(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6))


@functools.cache
def _fields(form: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: field for field in msgspec.structs.fields(form)}


def columns_of(form: type[msgspec.Struct]) -> dict[str, bool]:
    """The keys of a form with those inside others written with a point; True for the ones that hold a list."""
    found: dict[str, bool] = {}
    for name, field in _fields(form).items():
        inner = _stated(field.type)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            found |= {f"{name}.{key}": is_list for key, is_list in columns_of(inner).items()}
        else:
            found[name] = _list_item(inner) is not None
    return found


def shown(node: Node) -> str:
    """A value as a person would recognise it, cut short."""
    value = node.value
    if isinstance(value, dict):
        return "{...}"
    if isinstance(value, list):
        return "[...]"
    if isinstance(value, str):
        return f'"{value[:60]}"'
    return "null" if value is None else str(value)[:60].lower()


def plain(node: Node) -> Any:
    """The tree without its places."""
    value = node.value
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [plain(child) for child in value]
    return value


def at(root: Node, path: Path) -> Iterator[Node]:
    """The nodes from the root to `path`, as far as it exists."""
    node = root
    yield node
    for step in path:
        members = node.value
        child = None
        if isinstance(members, dict):
            child = members.get(str(step))
        elif isinstance(members, list) and isinstance(step, int) and step < len(members):
            child = members[step]
        if child is None:
            return
        node = child
        yield node
