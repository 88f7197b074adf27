"""Regular expressions from files nobody has vetted, matched in time that cannot run away.

Legend: an expression becomes a graph of nodes, each with the letters it takes and where it leads; a few
expressions share one graph. A state is the set of nodes reachable after a prefix of the name; states are computed
once and kept, so a name costs one look-up a letter. The work of computing states is counted and bounded; `re`,
which backtracks, has no such bound.
Source: the construction is Thompson's (1968).
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.formats.expressions import Choice, Edge, ExpressionError, Item, Letters, Sequence, parse

MAX_NODES = 4_000
MAX_WORK = 400_000
TOGETHER = 16

_Node = tuple[frozenset[str] | None, bool, str, tuple[int, ...]]


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

    def _build(self, item: Item, following: int) -> int:
        """The node where an item starts, when `following` comes after it."""
        if isinstance(item, Letters):
            return self._add(following, members=item.members, others=item.negated)
        if isinstance(item, Edge):
            return self._add(following, needs=item.sign)
        if isinstance(item, Sequence):
            for part in reversed(item.items):
                following = self._build(part, following)
            return following
        if isinstance(item, Choice):
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
