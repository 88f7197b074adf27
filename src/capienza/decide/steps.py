"""What would settle the offers to confirm: each step once, how many offers wait for it, and which is the next of each.

The next step of an offer is the least work among its own (`effort`); of equal work the one that most offers wait for,
then the first in order of appearance. Where one of its steps is to look for another offer, no work settles this one,
and that step is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from capienza.decide.effort import Effort, effort_of
from capienza.decide.verdict import Decision
from capienza.errors import Message


class Step(msgspec.Struct, frozen=True):
    """One thing that would settle something: for which criteria, how many offers wait for it, how much work it is."""

    criteria: tuple[str, ...]
    message: Message
    offers: int
    effort: Effort


class Next(msgspec.Struct, frozen=True):
    """The next step of one offer, by its place in the list of all, and how many steps the offer has in all."""

    step: int
    steps: int


class Steps(msgspec.Struct, frozen=True):
    """All steps, the most awaited first, and the next one of each offer."""

    all: tuple[Step, ...]
    next: Mapping[str, Next]


def steps_of(decisions: Iterable[Decision]) -> Steps:
    """The steps of the decisions that are to confirm; equal counts stay in order of appearance."""
    waiting: Counter[int] = Counter()
    numbers: dict[Message, int] = {}
    criteria: list[dict[str, None]] = []
    # Verdicts are shared by all offers of a card class, and so are sets of steps: each is looked through once.
    seen: dict[int, tuple[int, ...]] = {}
    together: dict[frozenset[int], frozenset[int]] = {}
    by_offer: dict[str, frozenset[int]] = {}
    for decision in decisions:
        if decision.state != "to_confirm":
            continue
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
        frozen = frozenset(steps)
        by_offer[decision.offer] = together.setdefault(frozen, frozen)
    messages = list(numbers)
    ranked = sorted(waiting.items(), key=lambda item: (-item[1], item[0]))
    listed = tuple(
        Step(tuple(criteria[number]), messages[number], offers, effort_of(messages[number]))
        for number, offers in ranked
    )
    position = {number: index for index, (number, _) in enumerate(ranked)}
    following = {steps: _next(steps, listed, position) for steps in together}
    found = {offer: one for offer, steps in by_offer.items() if (one := following[steps]) is not None}
    return Steps(listed, found)


def _next(steps: frozenset[int], listed: tuple[Step, ...], position: Mapping[int, int]) -> Next | None:
    """The step to take first; None where a decision that was made elsewhere has none."""
    places = sorted(position[number] for number in steps)
    if not places:
        return None
    hopeless = [place for place in places if listed[place].effort is Effort.OTHER_OFFER]
    # The list is by offers waiting, then by appearance: the first of the least effort is the one.
    return Next(min(hopeless or places, key=lambda place: (listed[place].effort, place)), len(places))
