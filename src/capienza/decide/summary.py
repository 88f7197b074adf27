"""What a person needs of many decisions: counts, the shortlist, why offers are out, and what would settle the rest.

Every decision is counted; texts are kept for the first `KEPT` offers of each state in their order of rank, and what
is not kept is counted, so that a page can say how much it leaves out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from capienza.card.model import Card
from capienza.catalog.notes import Findings
from capienza.decide.ranking import CurrencyList, Shortlist, shortlist
from capienza.decide.steps import Step, steps_of
from capienza.decide.verdict import Decision
from capienza.errors import Message

BRIEF_PLACES = 10
STATES = ("admissible", "to_confirm", "exclude")


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions of a run, summed up. `excluded` are in the order of the offers."""

    counts: dict[str, int]
    shortlist: Shortlist
    excluded: tuple[Decision, ...]
    steps: tuple[Step, ...]
    by_offer: dict[str, Decision]


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What one of many cards comes to. The lists hold their first `BRIEF_PLACES` offers each; `counts` counts all."""

    card: str
    file: str | None
    counts: dict[str, int]
    lists: tuple[CurrencyList, ...]
    notes: tuple[Message, ...]
    findings: Findings
    record_findings: tuple[Message, ...] = ()


def in_short(
    card: Card, decisions: Iterable[Decision | None], findings: Findings, card_findings: tuple[Message, ...] = ()
) -> Brief:
    """The first places of one run without their next steps (None: an excluded offer); `findings` are of the offers."""
    counts: Counter[str] = Counter()

    def possible() -> Iterator[Decision]:
        for decision in decisions:
            counts["exclude" if decision is None else decision.state] += 1
            if decision is not None and decision.state != "exclude":
                yield decision

    ranked = shortlist(card, possible())
    lists = tuple(
        CurrencyList(
            currency=one.currency, selected=one.selected[:BRIEF_PLACES], to_confirm=one.to_confirm[:BRIEF_PLACES]
        )
        for one in ranked.lists
    )
    return Brief(
        card=card.name,
        file=card.file,
        counts={state: counts[state] for state in STATES},
        lists=lists,
        notes=(*card_findings, *ranked.notes),
        findings=findings,
    )


def summarise(card: Card, decisions: Iterable[Decision]) -> Summary:
    """Sum up the decisions of one run. Steps come with the most awaited first, equal ones in order of appearance."""
    by_offer = {decision.offer: decision for decision in decisions}
    counts: Counter[str] = Counter(decision.state for decision in by_offer.values())
    steps = steps_of(by_offer.values())
    return Summary(
        counts={state: counts[state] for state in STATES},
        shortlist=shortlist(card, by_offer.values(), steps.next),
        excluded=tuple(decision for decision in by_offer.values() if decision.state == "exclude"),
        steps=steps.all,
        by_offer=by_offer,
    )
