"""From YAML text to a tree of values with their places, within limits.

The parser's events are read one by one, so that a hostile file stops at the first limit it breaks and no
recursion follows its depth. With libyaml this is several times faster than composing PyYAML's own nodes.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, NoReturn

import msgspec

from capienza.errors import InputError, InputErrors, Message, Place, Template, template
from capienza.yamlmarks.scalars import UNREADABLE, Scalar, Unreadable, plain_scalar
from capienza.yamlmarks.source import too_large

EMPTY = template(
    "yamlmarks.empty",
    "the file is empty",
    "A card to start from: `capienza card new MODEL`. A list of offers begins with - id.",
)
NOT_UTF8 = template("yamlmarks.not-utf8", "byte {found} is not UTF-8 text", "Save the file as UTF-8.")
CONTROL = template(
    "yamlmarks.control-character", "the hidden character {found} is not accepted", "Delete it, or retype the line."
)
TAB = template("yamlmarks.tab", "expected spaces, got a tab", "Indent with spaces: YAML does not accept tabs.")
SYNTAX = template(
    "yamlmarks.syntax",
    "this is not valid YAML: {problem}",
    "Quote text that holds ': ' or ' #' or starts with a sign, close every bracket, and indent with spaces.",
)
DUPLICATE = template(
    "yamlmarks.duplicate-key",
    "{found} is already written on line {first_line}",
    "Keep one of the two: nothing says which is meant.",
)
KEY_NOT_TEXT = template(
    "yamlmarks.key-not-text", "expected a key that is text, got {found}", "Put the key in quotes, or correct it."
)
ALIAS = template("yamlmarks.alias", "anchors and aliases ({found}) are not accepted", "Write the value out in full.")
TAG = template("yamlmarks.tag", "tags ({found}) are not accepted", "Delete the tag; quote the value to make it text.")
DIRECTIVE = template("yamlmarks.directive", "directives (% lines) are not accepted", "Delete the line.")
DOCUMENTS = template(
    "yamlmarks.several-documents", "a second document starts here, one is accepted", "Put it in a file of its own."
)
TOO_DEEP = template(
    "yamlmarks.too-deep", "more than {limit} levels of nesting are not read", "Check that it is the file you meant."
)
TOO_MANY = template(
    "yamlmarks.too-many-values",
    "more than {limit} keys and values are not read",
    "Split it, or check that it is the file you meant.",
)
TOO_MANY_PROBLEMS = template(
    "yamlmarks.too-many-problems", "more than {limit} problems: the rest was not read", "Correct these first."
)

MAX_PROBLEMS = 100
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that YAML refuses, and those that end a line for one program and not for another."""


class Limits(msgspec.Struct, frozen=True):
    """The most that is read of one file. Both keys and values count as `nodes`."""

    max_bytes: int = 4 * 1024**2
    max_nodes: int = 150_000
    max_depth: int = 24


DEFAULT_LIMITS = Limits()


class Node(msgspec.Struct, frozen=True, gc=False):
    """One value and where it starts; lines and columns count from 1.

    `value` is a scalar, a list of nodes or a dict from key text to node; it is `UNREADABLE` when the problem is
    already reported. `key_line` and `key_column` are the place of the key, 0 when the node has none.
    """

    value: Scalar | list[Node] | dict[str, Node] | Unreadable
    line: int
    column: int
    key_line: int = 0
    key_column: int = 0


class Reading(msgspec.Struct, frozen=True):
    """The tree of one file, None when it could not be read to its end, and the problems in order of place."""

    root: Node | None
    problems: tuple[InputError, ...] = ()


class _Key(NamedTuple):
    """The key that waits for its value; `text` None when the value is to be dropped."""

    text: str | None
    line: int
    column: int


class _Stop(Exception):  # noqa: N818 - not an error of its own: the last problem is already noted
    """Nothing more can be read of this file."""


def load(text: str | bytes, file: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Node:
    """The tree of one YAML document. Raises `InputErrors` with everything that is wrong with its form."""
    reading = read(text, file, limits)
    if reading.root is None or reading.problems:
        raise InputErrors(reading.problems)
    return reading.root


def read(text: str | bytes, file: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """The tree of one YAML document beside the problems of its form, for a caller with more problems to add."""
    reader = _Reader(file, limits)
    try:
        return Reading(reader.tree(reader.decode(text)), tuple(reader.problems))
    except _Stop:
        return Reading(None, tuple(reader.problems))


class _Reader:
    """The state of one reading: the stack of open containers and the problems found so far."""

    def __init__(self, file: str | None, limits: Limits) -> None:
        self.file = file
        self.limits = limits
        self.problems: list[InputError] = []

    def note(self, message: Message, line: int, column: int) -> None:
        self.problems.append(InputError(message, Place(self.file, line, column)))
        if len(self.problems) == MAX_PROBLEMS:
            self.stop(TOO_MANY_PROBLEMS(limit=MAX_PROBLEMS), line, column)

    def stop(self, message: Message, line: int | None = None, column: int | None = None) -> NoReturn:
        self.problems.append(InputError(message, Place(self.file, line, column)))
        raise _Stop

    def decode(self, text: str | bytes) -> str:
        """The text of a file without its byte-order mark, known to hold no hidden character."""
        if len(text) > self.limits.max_bytes:
            self.stop(too_large(self.limits.max_bytes))
        if isinstance(text, bytes):
            text = self.utf8(text)
        text = text.removeprefix("\ufeff")
        if hidden := _HIDDEN.search(text):
            self.stop(CONTROL(found=f"U+{ord(hidden[0]):04X}"), *_end_of(text[: hidden.start()]))
        return text

    def utf8(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            before = data[: error.start].decode().removeprefix("\ufeff")
            self.stop(NOT_UTF8(found=f"0x{data[error.start]:02x}"), *_end_of(before))

    def tree(self, text: str) -> Node:
        """The root node of the only document in `text`."""
        import yaml  # 20 ms that commands without a YAML file do not pay

        parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        try:
            root = self.build(parser.get_event, yaml.events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
            if mark and _character(text, mark.line, mark.column) == "\t":
                self.stop(TAB(), line, column)
            self.stop(SYNTAX(problem=error.problem or error.context or "unknown"), line, column)
        except yaml.YAMLError as error:
            self.stop(SYNTAX(problem=str(error)))
        finally:
            parser.dispose()
        if root is None:
            self.stop(EMPTY())
        return root

    def build(self, next_event: Any, events: Any) -> Node | None:
        """Follow the events to the end of the file; None when there was no document."""
        scalar, alias = events.ScalarEvent, events.AliasEvent
        containers = {events.MappingStartEvent: dict, events.SequenceStartEvent: list}
        ends = (events.MappingEndEvent, events.SequenceEndEvent)
        root: Node | None = None
        container: dict[str, Node] | list[Node] | None = None
        key: _Key | None = None
        outer: list[dict[str, Node] | list[Node] | None] = []
        nodes_left = self.limits.max_nodes
        while True:
            event = next_event()
            kind = type(event)
            if kind is scalar or kind in containers or kind is alias:
                line, column = event.start_mark.line + 1, event.start_mark.column + 1
                nodes_left -= 1
                if nodes_left < 0:
                    self.stop(TOO_MANY(limit=self.limits.max_nodes), line, column)
                if key is None and isinstance(container, dict):
                    key = self.key(event, container, line, column)
                    continue
                value = self.value(event, containers.get(kind), line, column)
                node = Node(value, line, column, key.line, key.column) if key else Node(value, line, column)
                if container is None:
                    root = node
                elif isinstance(container, list):
                    container.append(node)
                elif key and key.text is not None:
                    container[key.text] = node
                key = None
                if kind in containers:
                    outer.append(container)
                    container = value
                    if len(outer) > self.limits.max_depth:
                        self.stop(TOO_DEEP(limit=self.limits.max_depth), line, column)
            elif kind in ends:
                container = outer.pop()
            elif kind is events.DocumentStartEvent:
                self.document(event, first=root is None)
            elif kind is events.StreamEndEvent:
                return root

    def document(self, event: Any, *, first: bool) -> None:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if not first:
            self.stop(DOCUMENTS(), line, column)
        if event.version or event.tags:
            self.note(DIRECTIVE(), line, column)

    def value(self, event: Any, container: type | None, line: int, column: int) -> Any:
        """The value that an event stands for; a container is returned empty."""
        if self.decorated(event, line, column):
            return container() if container else UNREADABLE
        if container:
            return container()
        if not event.implicit[0]:
            return UNREADABLE if self.hides(event, line, column) else event.value
        found = plain_scalar(event.value)
        if isinstance(found, Template):
            self.note(found(found=event.value[:40]), line, column)
            return UNREADABLE
        return found

    def key(self, event: Any, container: dict[str, Node], line: int, column: int) -> _Key:
        """The key that an event stands for. The value of a refused one is still read, and dropped."""
        if self.decorated(event, line, column):
            return _Key(None, line, column)
        text = getattr(event, "value", None)
        if text is None:
            self.stop(KEY_NOT_TEXT(found="{...}"), line, column)
        if self.hides(event, line, column):
            return _Key(None, line, column)
        if event.implicit[0] and not isinstance(plain_scalar(text), str):
            self.note(KEY_NOT_TEXT(found=text[:40] or "null"), line, column)
        elif text in container:
            self.note(DUPLICATE(found=text[:40], first_line=container[text].key_line), line, column)
        else:
            return _Key(text, line, column)
        return _Key(None, line, column)

    def hides(self, event: Any, line: int, column: int) -> bool:
        """Note a hidden character that a text in double quotes spells with an escape."""
        hidden = _HIDDEN.search(event.value) if event.style == '"' else None
        if hidden:
            self.note(CONTROL(found=f"U+{ord(hidden[0]):04X}"), line, column)
        return hidden is not None

    def decorated(self, event: Any, line: int, column: int) -> bool:
        """Note an anchor, alias or tag."""
        tag = getattr(event, "tag", None)
        if event.anchor is not None:
            self.note(ALIAS(found=event.anchor[:40]), line, column)
        if tag is not None:
            self.note(TAG(found=tag[:40]), line, column)
        return event.anchor is not None or tag is not None


def _end_of(text: str) -> tuple[int, int]:
    """Line and column, from 1, of the character after `text`."""
    lines = f"{text}.".splitlines()
    return len(lines), len(lines[-1])


def _character(text: str, line: int, column: int) -> str:
    """The character at a place counted from 0; empty past the end."""
    return "".join(text.splitlines()[line : line + 1])[column : column + 1]
