"""One JSON value with a place for every part: read only when the fast decoder has refused it.

Gives the same tree as `yamlmarks`, so that one walk explains both. Numbers with a point or an exponent are exact
decimals; a repeated key is a problem, where ordinary JSON readers keep the last and say nothing.
"""

from __future__ import annotations

import bisect
import re
from decimal import Decimal
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]

from capienza.errors import Message, template
from capienza.yamlmarks import UNREADABLE, Node

NO_VALUE = template("catalog.json-no-value", "this is not valid JSON: a value was expected", "Text needs quotes.")
AFTER_VALUE = template(
    "catalog.json-after-value", "this is not valid JSON: there is text after the end of the value", "Delete it."
)
EXPECTED = template(
    "catalog.json-expected",
    "this is not valid JSON: {accepted} was expected",
    "Check quotes, commas and brackets around this place.",
)
BAD_TEXT = template(
    "catalog.json-text",
    "this is not valid JSON: a text does not end, or holds a bad escape",
    "Close the quote, and double each backslash.",
)
LONG_NUMBER = template(
    "catalog.json-number",
    "a number that is too long or too large to be used",
    "Put it in quotes if it is meant as text.",
)
REPEATED = template(
    "catalog.repeated-key", "{found} is written twice", "Keep one of the two: nothing says which is meant."
)
TOO_DEEP = template("catalog.too-deep", "more than {limit} levels of nesting", "An offer has three.")

MAX_DEPTH = 16
MAX_NUMBER = 40
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: an escape that stands for no character, and cannot be written out again."""
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_WORDS = {"null": None, "true": True, "false": False}


class _Stop(Exception):  # noqa: N818 - carries the problem that ends the reading
    def __init__(self, message: Message, position: int) -> None:
        super().__init__()
        self.message = message
        self.position = position


def read(text: str, line: int, column: int = 1) -> tuple[Node | None, list[tuple[Message, int, int]]]:
    """The tree of `text`, None when unreadable, and its problems with line and column; `text` starts at `line`."""
    reader = _Reader(text, line, column)
    try:
        node = reader.document()
    except _Stop as stop:
        return None, [*reader.problems, (stop.message, *reader.place(stop.position))]
    return node, reader.problems


class _Reader:
    def __init__(self, text: str, line: int, column: int) -> None:
        self.text = text
        self.line = line
        self.column = column
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.problems: list[tuple[Message, int, int]] = []

    def document(self) -> Node:
        node, end = self.value(self.skip(0), 0)
        end = self.skip(end)
        if end != len(self.text):
            raise _Stop(AFTER_VALUE(), end)
        return node

    def place(self, position: int) -> tuple[int, int]:
        index = bisect.bisect_right(self.line_starts, position) - 1
        return self.line + index, position - self.line_starts[index] + (1 if index else self.column)

    def skip(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def value(self, position: int, depth: int, key: int | None = None) -> tuple[Node, int]:
        """The node at `position` and where it ends; `key` is the position of its key."""
        first = self.text[position : position + 1]
        found: object
        if first in ("{", "["):
            if depth == MAX_DEPTH:
                raise _Stop(TOO_DEEP(limit=MAX_DEPTH), position)
            found, end = self.members(position, depth) if first == "{" else self.items(position, depth)
        elif first == '"':
            found, end = self.string(position)
        else:
            found, end = self.word(position)
        return Node(found, *self.place(position), *(self.place(key) if key is not None else ())), end  # type: ignore[arg-type]

    def string(self, position: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self.text, position + 1, True)
        except JSONDecodeError as error:
            raise _Stop(BAD_TEXT(), error.pos) from None
        if _HALF.search(text):
            raise _Stop(BAD_TEXT(), position)
        return text, end

    def word(self, position: int) -> tuple[object, int]:
        match = _NUMBER.match(self.text, position)
        if match and match[0]:
            return self.number(match, position), match.end()
        for word, value in _WORDS.items():
            if self.text.startswith(word, position):
                return value, position + len(word)
        raise _Stop(NO_VALUE(), position)

    def number(self, match: re.Match[str], position: int) -> object:
        exponent = (match[2] or "e0")[1:]
        if len(match[0]) > MAX_NUMBER or abs(int(exponent)) > MAX_NUMBER:
            self.problems.append((LONG_NUMBER(), *self.place(position)))
            return UNREADABLE
        return Decimal(match[0]) if match[1] or match[2] else int(match[0])

    def expect(self, position: int, wanted: str) -> str:
        found = self.text[position : position + 1]
        if not found or found not in wanted:
            raise _Stop(EXPECTED(accepted=" ".join(wanted)), position)
        return found

    def members(self, position: int, depth: int) -> tuple[dict[str, Node], int]:
        found: dict[str, Node] = {}
        position = self.skip(position + 1)
        if self.text.startswith("}", position):
            return found, position + 1
        while True:
            self.expect(position, '"')
            at = position
            key, position = self.string(position)
            position = self.skip(position)
            self.expect(position, ":")
            node, position = self.value(self.skip(position + 1), depth + 1, at)
            if key in found:
                self.problems.append((REPEATED(found=key[:40]), *self.place(at)))
            found[key] = node
            position = self.skip(position)
            if self.expect(position, ",}") == "}":
                return found, position + 1
            position = self.skip(position + 1)

    def items(self, position: int, depth: int) -> tuple[list[Node], int]:
        found: list[Node] = []
        position = self.skip(position + 1)
        if self.text.startswith("]", position):
            return found, position + 1
        while True:
            node, position = self.value(position, depth + 1)
            found.append(node)
            position = self.skip(position)
            if self.expect(position, ",]") == "]":
                return found, position + 1
            position = self.skip(position + 1)
