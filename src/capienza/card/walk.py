"""One pass over a form that a person wrote: every value with its place, and every problem met on the way.

A form is a table of fields. What the table does not list is refused by name, with the key that was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from capienza.card.field import Field
from capienza.card.kinds import PROSE, Kind
from capienza.card.model import NONE
from capienza.card.options import plain_name
from capienza.card.problems import MAX_SHOWN, Refused, closest, shown
from capienza.card.rules import Found, Problems
from capienza.errors import InputError, Message, Place, Template, template, with_suggestion
from capienza.yamlmarks import MAX_PROBLEMS, TOO_MANY_PROBLEMS, UNREADABLE, Node

MISSING = template("card.missing", "required, and not written", "Add it, such as {example}.")
NOTHING = template(
    "card.nothing",
    "expected a value, got nothing",
    "Write the value, such as {example}; or delete the key if it is not known.",
)
UNKNOWN_KEY = template("card.unknown-key", "unknown key; accepted here: {accepted}", "Correct the key, or delete it.")
NOT_A_MAPPING = template("card.not-a-mapping", "expected keys and values, got {found}", "Write it as {example}.")
NOT_A_LIST = template("card.not-a-list", "expected a list, got {found}", "Write it as {example}.")

SLIP = 0.8
"""A key this like a listed one is taken for a slip of the pen, even where other keys are free."""


class _Pending(msgspec.Struct, frozen=True):
    """A value to be built once the whole form is known to be sound."""

    build: Callable[..., Any]
    arguments: dict[str, Any]


class Form(msgspec.Struct, frozen=True):
    """What may be written: the fields of each mapping by its path and then by key, and what rules what out.

    `not_one` is said of a document that is no mapping at all, with `found`. A path that `contradictions` names is
    that of a key that is written, or "" for the document.
    """

    root: Field
    children: Mapping[str, Mapping[str, Field]]
    contradictions: Callable[[Found], Problems]
    not_one: Template


class Enough(Exception):  # noqa: N818 - not an error of its own: the last problem says it
    """So many problems that the rest of the file is left unread."""


class Walk:
    """One pass over the tree: values, their nodes, and the problems met on the way."""

    def __init__(self, form: Form, file: str | None, problems: Iterable[InputError] = ()) -> None:
        self.form = form
        self.file = file
        self.problems = list(problems)
        self.found = Found({}, {})

    def whole(self, root: Node) -> Any:
        """What the tree stands for; None when there is any problem."""
        self.found.nodes[""] = root
        pending = self.value(root, self.form.root, "")
        for path, message in self.form.contradictions(self.found):
            self.note(message, self.found.nodes[path], path)
        return None if self.problems else _finish(pending)

    def note(self, message: Message, node: Node, path: str, *, at_key: bool = False) -> None:
        """Keep a problem with its place; the rest is left unread when there are too many."""
        line, column = (node.key_line, node.key_column) if at_key else (node.line, node.column)
        self.problems.append(InputError(message, Place(self.file, line, column, path or None)))
        if len(self.problems) == MAX_PROBLEMS:
            self.problems.append(InputError(TOO_MANY_PROBLEMS(limit=MAX_PROBLEMS), Place(self.file, line, column)))
            raise Enough

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
            refusal = NOT_A_MAPPING(found=found, example=example) if example else self.form.not_one(found=found)
            self.note(refusal, node, path)
            return None
        kind, children = field.kind, self.form.children.get(field.path, {})
        arguments: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        last: Field | None = None
        for key, child in node.value.items():
            here = _joined(path, key)
            if child.value is None and key not in children and last and last.kind is PROSE:
                arguments[last.key] = _continued(arguments[last.key], key)
                continue
            if known := children.get(key) or (children.get(plain_name(key)) if kind.rest_names else None):
                last = known
                self.found.nodes[here] = child
                arguments[known.attribute or known.key] = self.value(child, known, here)
            elif kind.rest_kind and (plain_name(key) in kind.rest_names or not closest(key, children, SLIP)):
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
        elsewhere = (fields[key].path for fields in self.form.children.values() if key in fields)
        suggestion = closest(key, children) or next(elsewhere, None)
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
