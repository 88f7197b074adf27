"""Regular expressions from files nobody has vetted, matched in time that cannot run away.

Legend: an expression becomes a graph of nodes, each with the letters it takes and where it leads; several
expressions share one graph. A state is the set of nodes reachable after a prefix of the name; states are computed
once and kept, so a name costs one look-up a letter however many expressions there are. The work of computing
states is counted and bounded; `re` has no such bound.
Understood: letters, `.`, escapes, sets, groups, `|`, `* + ?` and counts (lazy or not), `^`, `$`. Refused: look-around,
back references, names, flags.
Source: the construction is Thompson's (1968); the spelling is Python's `re`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator

import msgspec

MAX_LENGTH = 256
MAX_DEPTH = 8
MAX_COUNT = 64
MAX_NODES = 4_000
MAX_WORK = 400_000
TOGETHER = 16

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


class _Edge(msgspec.Struct, frozen=True):
    """A position: the start or end of the name."""

    sign: str


class _Repeat(msgspec.Struct, frozen=True):
    body: _Item
    least: int
    most: int | None


class _Sequence(msgspec.Struct, frozen=True):
    items: tuple[_Item, ...]


class _Choice(msgspec.Struct, frozen=True):
    branches: tuple[_Item, ...]


_Node = tuple[frozenset[str] | None, bool, str, tuple[int, ...]]
_Item = Letters | _Edge | _Repeat | _Sequence | _Choice
_ANY = Letters(frozenset("\n"), negated=True)


def parse(text: str) -> _Item:
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

    def choice(self, depth: int) -> _Item:
        if depth > MAX_DEPTH:
            raise ExpressionError
        branches = [self.sequence(depth)]
        while self.accept("|"):
            branches.append(self.sequence(depth))
        return branches[0] if len(branches) == 1 else _Choice(tuple(branches))

    def sequence(self, depth: int) -> _Item:
        items: list[_Item] = []
        while self.position < len(self.text) and self.text[self.position] not in "|)":
            items.append(self.repeated(self.atom(depth)))
        return _Sequence(tuple(items))

    def repeated(self, item: _Item) -> _Item:
        limits = self.limits()
        if limits is None:
            return item
        self.accept("?")
        if isinstance(item, _Edge) or self.peek() in {"*", "+", "?"} or self.limits() is not None:
            raise ExpressionError
        return _Repeat(item, *limits)

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

    def atom(self, depth: int) -> _Item:
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
            return _Edge(letter)
        if letter == "\\":
            escaped = self.take()
            return _Edge(_ENDS[escaped]) if escaped in _ENDS else _escape(escaped)
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


class Matcher:
    """Several expressions at once. Raises `ExpressionError` for one that is not understood, or too large together."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        # States of many open expressions grow with each other; a look-up for every few of them costs less.
        self.graphs = [_Graph(texts[start : start + TOGETHER]) for start in range(0, len(texts), TOGETHER)]

    @property
    def work(self) -> int:
        """What has been computed so far."""
        return sum(graph.work for graph in self.graphs)

    def ends(self, name: str) -> Iterator[int]:
        """Every length of a prefix of the name that some expression matches.

        Raises `ExpressionError` when the expressions are too costly.
        """
        for graph in self.graphs:
            yield from graph.ends(name)
            if graph.grown and self.work > MAX_WORK:
                raise ExpressionError
            graph.grown = False


class _Graph:
    """The nodes of a few expressions and the states met so far."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        # Node 0 accepts. A node is (letters it takes, whether all others instead, edge it needs, where it leads).
        self.nodes: list[_Node] = [(None, False, "", ())]
        self.start = self._closure([self._build(parse(text), 0) for text in texts], "^")
        self.moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self.endings: dict[frozenset[int], bool] = {}
        self.work = 0
        self.grown = False

    def ends(self, name: str) -> Iterator[int]:
        state = self.start
        for index, letter in enumerate(name):
            if 0 in state:
                yield index
            following = self.moves.get((state, letter))
            if following is None:
                following = self.moves[state, letter] = self._step(state, letter)
            state = following
            if not state:
                return
        if state not in self.endings:
            self.endings[state] = 0 in self._closure(list(state), "$")
        if self.endings[state]:
            yield len(name)

    def _step(self, state: frozenset[int], letter: str) -> frozenset[int]:
        reached: list[int] = []
        for index in state:
            members, others, _, leads = self.nodes[index]
            if members is not None and (letter in members) is not others:
                reached += leads
        following = self._closure(reached)
        self.work += 1 + len(state) + len(following)
        self.grown = True
        if self.work > MAX_WORK:
            raise ExpressionError
        return following

    def _closure(self, pending: list[int], edge: str = "-") -> frozenset[int]:
        """The nodes reachable without taking a letter, standing at the given edge of the name."""
        seen: set[int] = set()
        while pending:
            index = pending.pop()
            if index not in seen:
                seen.add(index)
                members, _, needs, leads = self.nodes[index]
                if members is None and needs in {"", edge}:
                    pending += leads
        return frozenset(seen)

    def _add(self, *leads: int, members: frozenset[str] | None = None, others: bool = False, needs: str = "") -> int:
        if len(self.nodes) >= MAX_NODES:
            raise ExpressionError
        self.nodes.append((members, others, needs, leads))
        return len(self.nodes) - 1

    def _build(self, item: _Item, following: int) -> int:
        """The node where an item starts, when `following` comes after it."""
        if isinstance(item, Letters):
            return self._add(following, members=item.members, others=item.negated)
        if isinstance(item, _Edge):
            return self._add(following, needs=item.sign)
        if isinstance(item, _Sequence):
            for part in reversed(item.items):
                following = self._build(part, following)
            return following
        if isinstance(item, _Choice):
            return self._add(*(self._build(branch, following) for branch in item.branches))
        if item.most is None:
            loop = self._add()
            self.nodes[loop] = (None, False, "", (self._build(item.body, loop), following))
            following = loop
        else:
            after = following
            for _ in range(item.most - item.least):
                following = self._add(self._build(item.body, following), after)
        for _ in range(item.least):
            following = self._build(item.body, following)
        return following
