"""The corpus: one item on each line of a JSON Lines file, frozen by its digest before any output exists."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from capienza.errors import InputError, InputErrors, Parameter, Place, phrase, shortened, template
from capienza.jsonlines import Row, read_objects
from capienza.yamlmarks.source import open_file

EMPTY = template("quality.empty-corpus", "the corpus holds no item", "write one item on each line, with id and prompt")
NO_KEY = template(
    "quality.item-without-key",
    "the item has no {key}",
    "an item has an id, a prompt or messages, and what the metrics compare with: expected",
)
ODD_VALUE = template("quality.item-odd-value", "expected {accepted}, got {found}")
BOTH = template(
    "quality.item-prompt-and-messages", "the item has a prompt and messages", "keep the one that the model is sent"
)
TWICE = template("quality.item-twice", "the id {id} stands on line {line} already", "give every item an id of its own")
TOO_MANY = template("quality.too-many-items", "the corpus has more than {limit} items", "freeze a sample of it")
UNREAD_KEYS = template(
    "quality.keys-not-read", "these keys of the corpus are read by nothing: {keys}", "Keys that are read: {accepted}."
)

LINE_BYTES = 16 * 2**20
MOST_ITEMS = 1_000_000
_MOST_PROBLEMS = 20
ROLES = ("system", "developer", "user", "assistant", "tool")
KEYS = ("id", "cluster", "prompt", "messages", "expected", "choices", "schema")

TEXT = phrase("a text of 1 to 200 characters")
ANY_TEXT = phrase("a text that is not empty")
MESSAGES = phrase("a list of objects with role and content, both texts")
EXPECTED = phrase("a text, a number, true or false, or a list of texts that are all accepted")
CHOICES = phrase("a list of 2 to 26 different labels")
SCHEMA = phrase("an object, the JSON schema")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `expected` holds every answer that is accepted; empty where nothing is compared with a key."""

    id: str
    cluster: str
    messages: tuple[dict[str, str], ...] = ()
    prompt: str | None = None
    expected: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None


class Corpus(msgspec.Struct, frozen=True, kw_only=True):
    """The items in their order, the digest of the file, and the keys of the file that nothing reads."""

    file: str
    sha256: str
    items: tuple[Item, ...]
    unread_keys: tuple[str, ...] = ()

    @property
    def clusters(self) -> int:
        """How many source documents there are."""
        return len({item.cluster for item in self.items})


def read_corpus(path: str) -> Corpus:
    """The corpus of a file.

    Raises:
        UnreachableError: The file is not there.
        InputErrors: What is wrong with its items, with their lines; at most twenty at once.
        InputError: It is no JSON Lines file, is empty, or holds more than a million items.
    """
    items: list[Item] = []
    lines: dict[str, int] = {}
    problems: list[InputError] = []
    unread: Counter[str] = Counter()
    for number, row in read_objects(path, LINE_BYTES):
        place = Place(path, line=number)
        try:
            item = _item(row, place)
        except InputError as error:
            problems.append(error)
        else:
            if item.id in lines:
                problems.append(InputError(TWICE(id=shortened(item.id), line=lines[item.id]), place))
            lines.setdefault(item.id, number)
            items.append(item)
            unread.update(row.keys() - set(KEYS))
        if len(problems) >= _MOST_PROBLEMS or len(items) > MOST_ITEMS:
            break
    if problems:
        raise InputErrors(problems)
    if len(items) > MOST_ITEMS:
        raise InputError(TOO_MANY(limit=MOST_ITEMS), Place(path))
    if not items:
        raise InputError(EMPTY(), Place(path))
    keys = tuple(shortened(key, 40) for key, _ in unread.most_common(10))
    return Corpus(file=path, sha256=digest(path), items=tuple(items), unread_keys=keys)


def digest(path: str) -> str:
    """The sha256 of a file's bytes. Raises `UnreachableError` when it cannot be read."""
    with open_file(Path(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _item(row: Row, place: Place) -> Item:
    identity = _text(row, "id", place, TEXT, most=200)
    if "prompt" in row and "messages" in row:
        raise InputError(BOTH(), _at(place, "messages"))
    if "prompt" not in row and "messages" not in row:
        raise InputError(NO_KEY(key=_meant(row, "prompt")), place)
    return Item(
        id=identity,
        cluster=_text(row, "cluster", place, TEXT, most=200) if row.get("cluster") is not None else identity,
        prompt=_text(row, "prompt", place, ANY_TEXT) if "prompt" in row else None,
        messages=_messages(row["messages"], _at(place, "messages")) if "messages" in row else (),
        expected=_expected(row.get("expected"), _at(place, "expected")),
        choices=_choices(row.get("choices"), _at(place, "choices")),
        schema=_schema(row.get("schema"), _at(place, "schema")),
    )


def _meant(row: Row, key: str) -> str:
    """The key that is missing, with the one that was perhaps meant by it."""
    near = difflib.get_close_matches(key, [name[:40] for name in row if name not in KEYS], n=1, cutoff=0.7)
    return f"{key} ({near[0]}?)" if near else key


def _text(row: Row, key: str, place: Place, accepted: str, most: int = LINE_BYTES) -> str:
    if row.get(key) is None:
        raise InputError(NO_KEY(key=_meant(row, key)), place)
    value = row[key]
    if isinstance(value, int) and not isinstance(value, bool) and key in ("id", "cluster"):
        value = str(value)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise InputError(ODD_VALUE(accepted=accepted, found=_found(value)), _at(place, key))
    return value


def _messages(value: object, place: Place) -> tuple[dict[str, str], ...]:
    fine = isinstance(value, list) and value and all(_is_message(entry) for entry in value)
    if not fine or not isinstance(value, list):
        raise InputError(ODD_VALUE(accepted=MESSAGES, found=_found(value)), place)
    return tuple({"role": entry["role"], "content": entry["content"]} for entry in value)


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"role", "content"}
        and value["role"] in ROLES
        and isinstance(value["content"], str)
    )


def _expected(value: object, place: Place) -> tuple[str, ...]:
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, str | int | float) for each in values):
        raise InputError(ODD_VALUE(accepted=EXPECTED, found=_found(value)), place)
    return tuple(each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in values)


def _choices(value: object, place: Place) -> tuple[str, ...]:
    if value is None:
        return ()
    fine = (
        isinstance(value, list)
        and 2 <= len(value) <= 26
        and all(isinstance(label, str) and label.strip() for label in value)
        and len({label.casefold() for label in value}) == len(value)
    )
    if not fine or not isinstance(value, list):
        raise InputError(ODD_VALUE(accepted=CHOICES, found=_found(value)), place)
    return tuple(value)


def _schema(value: object, place: Place) -> dict[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise InputError(ODD_VALUE(accepted=SCHEMA, found=_found(value)), place)
    return value


def _at(place: Place, key: str) -> Place:
    return msgspec.structs.replace(place, key=key)


def _found(value: object) -> Parameter:
    return shortened(msgspec.json.encode(value).decode(), 60)
