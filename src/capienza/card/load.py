"""From a card file to a `Card`, or to every problem of the file with its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from capienza import yamlmarks
from capienza.canon import digest_bytes
from capienza.card.fields import CARD, CHILDREN, FIELDS, ROOT, VERSION, Field
from capienza.card.kinds import PROSE, Kind
from capienza.card.model import NONE, Card, Quality
from capienza.card.problems import MAX_SHOWN, Refused, closest, shown
from capienza.card.rules import Found, contradictions
from capienza.errors import CapienzaError, InputError, InputErrors, Message, Place, template, with_suggestion
from capienza.yamlmarks import MAX_PROBLEMS, TOO_MANY_PROBLEMS, UNREADABLE, Limits, Node

MISSING = template("card.missing", "required, and not written", "Add it, such as {example}.")
NOTHING = template(
    "card.nothing",
    "expected a value, got nothing",
    "Write the value, such as {example}; or delete the key if it is not known.",
)
UNKNOWN_KEY = template("card.unknown-key", "unknown key; accepted here: {accepted}", "Correct the key, or delete it.")
NOT_A_MAPPING = template("card.not-a-mapping", "expected keys and values, got {found}", "Write it as {example}.")
NOT_A_CARD = template(
    "card.not-a-card", "a card is keys and values, got {found}", "`capienza card new MODEL` writes one to start from."
)
FOLDER = template(
    "card.folder", "expected a card, got a folder", "Write a card for the model in it: capienza card new {folder}"
)
NOT_A_LIST = template("card.not-a-list", "expected a list, got {found}", "Write it as {example}.")
UNKNOWN_VERSION = template(
    "card.unknown-version",
    "this program reads version {known} of the card, got {found}",
    "Write capienza: {known}, or use the release of Capienza that the card was written for.",
)

LIMITS = Limits(max_bytes=256 * 1024, max_nodes=20_000)
"""A card is a page or two; a hundred times that is not a card."""

SLIP = 0.8
"""A key this like a listed one is taken for a slip of the pen, even where other keys are free."""


class _Pending(msgspec.Struct, frozen=True):
    """A value to be built once the whole card is known to be sound."""

    build: Callable[..., Any]
    arguments: dict[str, Any]


def load_card(path: Path | str) -> Card:
    """Read a card. Model path and corpus come out relative to the card's folder.

    Raises `InputErrors` with every problem of the file, `UnreachableError` when there is no such file.
    """
    if Path(path).is_dir():
        raise InputError(FOLDER(folder=str(path)), Place(str(path)))
    return parse_card(yamlmarks.read_bytes(Path(path), LIMITS.max_bytes), str(path))


def parse_card(text: str | bytes, file: str | None = None) -> Card:
    """The card in `text`. Raises `InputErrors` with every problem, in the order of their place."""
    reading = yamlmarks.read(text, file, LIMITS)
    if reading.root is None:
        raise InputErrors(reading.problems)
    walk = _Walk(file, [*reading.problems])
    try:
        card = walk.card(reading.root)
    except _Enough:
        card = None
    if walk.problems or card is None:
        raise InputErrors(sorted(walk.problems, key=lambda problem: (problem.place.line, problem.place.column)))
    data = text if isinstance(text, bytes) else text.encode()
    return msgspec.structs.replace(_located(card, file), file=file, sha256=digest_bytes(data))


def place_of(file: str, key: str) -> Place:
    """Where a key of a card stands. A card keeps no places: the file is read again for it."""
    try:
        node = yamlmarks.read(yamlmarks.read_bytes(Path(file), LIMITS.max_bytes), file, LIMITS).root
    except CapienzaError:
        node = None
    for part in key.split("."):
        node = node.value.get(part) if node is not None and isinstance(node.value, dict) else None
    return Place(file, key=key) if node is None else Place(file, node.line, node.column, key)


class _Enough(Exception):  # noqa: N818 - not an error of its own: the last problem says it
    """So many problems that the rest of the file is left unread."""


class _Walk:
    """One pass over the tree: values, their nodes, and the problems met on the way."""

    def __init__(self, file: str | None, problems: list[InputError]) -> None:
        self.file = file
        self.problems = problems
        self.found = Found({}, {})

    def card(self, root: Node) -> Card | None:
        """The card of a tree, None when there is any problem."""
        if not self.readable_version(root):
            return None
        pending = self.value(root, CARD, ROOT)
        for path, message in contradictions(self.found):
            self.note(message, self.found.nodes[path], path)
        return None if self.problems else _finish(pending)

    def note(self, message: Message, node: Node, path: str, *, at_key: bool = False) -> None:
        line, column = (node.key_line, node.key_column) if at_key else (node.line, node.column)
        self.problems.append(InputError(message, Place(self.file, line, column, path or None)))
        if len(self.problems) == MAX_PROBLEMS:
            self.problems.append(InputError(TOO_MANY_PROBLEMS(limit=MAX_PROBLEMS), Place(self.file, line, column)))
            raise _Enough

    def readable_version(self, root: Node) -> bool:
        """A card of another version is refused as such, not field by field."""
        node = root.value.get("capienza") if isinstance(root.value, dict) else None
        if node is None or node.value == VERSION or not isinstance(node.value, int) or isinstance(node.value, bool):
            return True
        self.note(UNKNOWN_VERSION(known=VERSION, found=node.value), node, "capienza")
        return False

    def value(self, node: Node, field: Field, path: str) -> Any:
        """The value of one field, None when it could not be read."""
        kind = field.kind
        if node.value is UNREADABLE:
            return None
        if field.none and node.value == NONE:
            self.found.values[path] = NONE
            return NONE
        if node.value is None:
            self.note(NOTHING(example=field.example), node, path)
            return None
        if kind.many:
            return self.items(node, field, path)
        if kind.build and (isinstance(node.value, dict) or kind.convert is None):
            return self.mapping(node, field, path)
        return self.scalar(node, kind, path)

    def scalar(self, node: Node, kind: Kind, path: str) -> Any:
        """One value by itself."""
        assert kind.convert is not None, f"{path} has neither a converter nor a builder"
        try:
            converted = self.found.values[path] = kind.convert(node.value)
        except Refused as refused:
            self.note(refused.message, node, path)
            return None
        return converted

    def items(self, node: Node, field: Field, path: str) -> Any:
        """A list of mappings, as a tuple."""
        if not isinstance(node.value, list):
            self.note(NOT_A_LIST(found=shown(node.value), example=field.example), node, path)
            return None
        return tuple(self.mapping(item, field, f"{path}[{index}]") for index, item in enumerate(node.value))

    def mapping(self, node: Node, field: Field, path: str) -> Any:
        """A mapping, or one item of a list of them."""
        if node.value is UNREADABLE:
            return None
        if not isinstance(node.value, dict):
            found = shown(node.value)
            example = field.example
            self.note(NOT_A_MAPPING(found=found, example=example) if example else NOT_A_CARD(found=found), node, path)
            return None
        kind, children = field.kind, CHILDREN.get(field.path, {})
        arguments: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        last: Field | None = None
        for key, child in node.value.items():
            here = _joined(path, key)
            if child.value is None and key not in children and last and last.kind is PROSE:
                arguments[last.key] = _continued(arguments[last.key], key)
                continue
            if known := children.get(key):
                last = known
                self.found.nodes[here] = child
                arguments[known.attribute or key] = self.value(child, known, here)
            elif kind.rest_kind and not closest(key, children, SLIP):
                self.found.nodes[here] = child
                rest[key] = self.scalar(child, kind.rest_kind, here) if child.value is not UNREADABLE else None
            else:
                self.unknown_key(key, child, here, children)
        for key, known in children.items():
            if known.required and key not in node.value:
                self.note(MISSING(example=f"{key}: {known.example}"), node, _joined(path, key))
        if kind.rest_kind:
            arguments |= {kind.rest: rest} if kind.rest else rest
        assert kind.build is not None, f"{path} has no builder"
        return _Pending(kind.build, arguments)

    def unknown_key(self, key: str, node: Node, path: str, children: Mapping[str, Field]) -> None:
        """Name the key that was probably meant: one of this mapping, or the same key in its right place."""
        suggestion = closest(key, children) or next((field.path for field in FIELDS if field.key == key), None)
        self.note(with_suggestion(UNKNOWN_KEY(accepted=list(children)), suggestion), node, path, at_key=True)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key[:MAX_SHOWN]}" if path else key[:MAX_SHOWN]


def _continued(prose: str | None, more: str) -> str | None:
    """Text of a mapping in braces that goes on after a comma, where YAML sees a key without a value."""
    return prose and f"{prose}, {more}"


def _finish(value: Any) -> Any:
    """Build the structs, innermost first."""
    if isinstance(value, _Pending):
        return value.build(**{name: _finish(argument) for name, argument in value.arguments.items()})
    return tuple(map(_finish, value)) if isinstance(value, tuple) else value


def _located(card: Card, file: str | None) -> Card:
    """The card with its paths seen from where the program runs, not from the card's folder."""
    folder = Path(file).parent if file else Path()
    model = card.model
    if model.path is not None:
        model = msgspec.structs.replace(model, path=_under(folder, model.path))
    quality = card.quality
    if isinstance(quality, Quality) and quality.corpus is not None:
        quality = msgspec.structs.replace(quality, corpus=_under(folder, quality.corpus))
    return msgspec.structs.replace(card, model=model, quality=quality)


def _under(folder: Path, path: str) -> str:
    return str(folder / os.path.expanduser(path))  # noqa: PTH111 - the method raises where there is no home
