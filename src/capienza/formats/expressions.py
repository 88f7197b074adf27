"""The regular expressions that checkpoints use to choose modules, as a tree.

Understood: letters, `.`, escapes, sets, groups, `|`, `* + ?` and counts (lazy or not), `^`, `$`. Refused: look-around,
back references, names, flags. The spelling is that of Python's `re`.
"""

from __future__ import annotations

import string

import msgspec

MAX_LENGTH = 256
MAX_DEPTH = 8
MAX_COUNT = 64

_KINDS = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset(string.whitespace),
}
_ENDS = {"Z": "$", "A": "^"}


class ExpressionError(Exception):
    """An expression that is not understood, or too costly to match."""


class Letters(msgspec.Struct, frozen=True):
    """One letter out of a set, or out of all the others."""

    members: frozenset[str]
    negated: bool = False


class Edge(msgspec.Struct, frozen=True):
    """A position: the start or end of the name."""

    sign: str


class Repeat(msgspec.Struct, frozen=True):
    """An item a number of times; `most` None is any number."""

    body: Item
    least: int
    most: int | None


class Sequence(msgspec.Struct, frozen=True):
    """Items one after the other."""

    items: tuple[Item, ...]


class Choice(msgspec.Struct, frozen=True):
    """One of several items."""

    branches: tuple[Item, ...]


Item = Letters | Edge | Repeat | Sequence | Choice
_ANY = Letters(frozenset("\n"), negated=True)


def parse(text: str) -> Item:
    """The tree of an expression. Raises `ExpressionError`."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError
    parser = _Parser(text)
    item = parser.choice(0)
    if parser.position != len(text):
        raise ExpressionError
    return item


class _Parser:
    """Recursive descent over one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def choice(self, depth: int) -> Item:
        if depth > MAX_DEPTH:
            raise ExpressionError
        branches = [self.sequence(depth)]
        while self.accept("|"):
            branches.append(self.sequence(depth))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def sequence(self, depth: int) -> Item:
        items: list[Item] = []
        while self.position < len(self.text) and self.text[self.position] not in "|)":
            items.append(self.repeated(self.atom(depth)))
        return Sequence(tuple(items))

    def repeated(self, item: Item) -> Item:
        limits = self.limits()
        if limits is None:
            return item
        self.accept("?")
        if isinstance(item, Edge) or self.peek() in {"*", "+", "?"} or self.limits() is not None:
            raise ExpressionError
        return Repeat(item, *limits)

    def limits(self) -> tuple[int, int | None] | None:
        """The least and most times of a repeat that stands here, or None."""
        for sign, limits in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(sign):
                return limits
        if self.peek() != "{":
            return None
        inner, closed, _ = self.text[self.position + 1 :].partition("}")
        least, comma, most = inner.partition(",")
        if not closed or not least.isdecimal() or not (most.isdecimal() or not most) or len(inner) > 8:
            raise ExpressionError
        self.position += len(inner) + 2
        low, high = int(least), int(most) if most else None if comma else int(least)
        if max(low, high or 0) > MAX_COUNT or (high is not None and high < low):
            raise ExpressionError
        return low, high

    def atom(self, depth: int) -> Item:
        letter = self.take()
        if letter == "(":
            if self.accept("?") and not self.accept(":"):
                raise ExpressionError
            inner = self.choice(depth + 1)
            if not self.accept(")"):
                raise ExpressionError
            return inner
        if letter == "[":
            return self.members()
        if letter in "^$":
            return Edge(letter)
        if letter == "\\":
            escaped = self.take()
            return Edge(_ENDS[escaped]) if escaped in _ENDS else _escape(escaped)
        if letter in "*+?{":
            raise ExpressionError
        return _ANY if letter == "." else Letters(frozenset(letter))

    def members(self) -> Letters:
        """A set, whose opening bracket is already taken."""
        negated = self.accept("^")
        members: set[str] = set()
        first = True
        while first or self.peek() != "]":
            first = False
            letter = self.take()
            found = _escape(self.take()) if letter == "\\" else Letters(frozenset(letter))
            if self.peek() == "-" and self.text[self.position + 1 : self.position + 2] not in {"]", ""}:
                self.take()
                last = self.take()
                if last == "\\" or len(found.members) != 1 or last < min(found.members):
                    raise ExpressionError
                found = Letters(frozenset(map(chr, range(ord(min(found.members)), min(ord(last), 0x7F) + 1))))
            if found.negated:
                raise ExpressionError
            members |= found.members
        self.take()
        return Letters(frozenset(members), negated)

    def peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def accept(self, letter: str) -> bool:
        found = self.peek() == letter
        self.position += found
        return found

    def take(self) -> str:
        letter = self.peek()
        if not letter:
            raise ExpressionError
        self.position += 1
        return letter


def _escape(letter: str) -> Letters:
    if letter.lower() in _KINDS:
        return Letters(_KINDS[letter.lower()], negated=letter.isupper())
    if letter.isalnum() or not letter.isascii():
        raise ExpressionError
    return Letters(frozenset(letter))
