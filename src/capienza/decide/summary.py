"""What a person needs of many decisions: counts, the shortlist, why offers are out, and what would settle the rest.

Every decision is counted; texts are kept for the first `KEPT` offers of each state in their order of rank, and what
is not kept is counted, so that a page can say how much it leaves out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from capienza.card.model import Card
from capienza.decide.ranking import Shortlist, shortlist
from capienza.decide.verdict import Decision
from capienza.errors import Message


class Step(msgspec.Struct, frozen=True):
    """One thing that would settle something: the criteria that it is for, and how many offers wait for it."""

    criteria: tuple[str, ...]
    message: Message
    offers: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions of a run, summed up. `excluded` are in the order of the offers."""

    counts: dict[str, int]
    shortlist: Shortlist
    excluded: tuple[Decision, ...]
    steps: tuple[Step, ...]
    by_offer: dict[str, Decision]


def summarise(card: Card, decisions: Iterable[Decision]) -> Summary:
    """Sum up the decisions of one run. Steps come with the most awaited first, equal ones in order of appearance."""
    by_offer = {decision.offer: decision for decision in decisions}
    counts = Counter(decision.state for decision in by_offer.values())
    return Summary(
        counts={state: counts[state] for state in ("admissible", "to_confirm", "exclude")},
        shortlist=shortlist(card, by_offer.values()),
        excluded=tuple(decision for decision in by_offer.values() if decision.state == "exclude"),
        steps=_steps(decision for decision in by_offer.values() if decision.state == "to_confirm"),
        by_offer=by_offer,
    )


def _steps(decisions: Iterable[Decision]) -> tuple[Step, ...]:
    waiting: Counter[int] = Counter()
    numbers: dict[Message, int] = {}
    criteria: list[dict[str, None]] = []
    # Verdicts are shared by all offers of a card class: each is looked through once.
    seen: dict[int, tuple[int, ...]] = {}
    for decision in decisions:
        steps: set[int] = set()
        for row in decision.criteria:
            known = seen.get(id(row))
            if known is None:
                known = seen[id(row)] = tuple(numbers.setdefault(step, len(numbers)) for step in row.settle)
                criteria += [{} for _ in range(len(numbers) - len(criteria))]
                for number in known:
                    criteria[number][row.criterion] = None
            steps.update(known)
        waiting.update(steps)
    messages = list(numbers)
    ranked = sorted(waiting.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Step(tuple(criteria[number]), messages[number], offers) for number, offers in ranked)
