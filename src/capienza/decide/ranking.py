"""Order of what can be chosen, each with its figures.

Selected are the admissible alone, figure by figure in the order of the card: total package cost, useful margin,
documented end of the work, and the card's preferences as the last. A threshold (`within`) makes figures that are near
count as equal. "Near" is no equality: a may be near b, b near c, and a not near c. So groups are taken from the best:
the best figure and all that are within the threshold of it are one group, then the best of the remaining, and so on;
inside a group the next figure decides alone. That depends on no order of the offers, and gives each its place; an
offer that is added changes no group before the first one that it comes to stand in. A figure that is not known comes
last. What no figure parts is a tie and shares a place. Beside the selected stand those to confirm: what comes too late
as planned after the rest, then by predicted fit, then cost. A cost in another currency than the card's cap stands
beside the rest through a dated rate on record; without one currencies are not compared, and each has its own list.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from capienza.card.model import Budget, Calendar, Card, Figure, RankBy
from capienza.decide.pareto import Figures, undominated
from capienza.decide.preferences import unknown_preferences
from capienza.decide.steps import Next
from capienza.decide.verdict import Decision, State
from capienza.errors import Message, template
from capienza.ledger.capacity import FitWord
from capienza.plan.judge import ENDS_LATE, TAKES_LONGER
from capienza.units import Money

CURRENCIES = template(
    "decide.currencies-apart",
    "prices are in {currencies}; they are ranked apart, and the order of the lists means nothing",
    "ask for prices in one currency",
)
COSTS_UNKNOWN = template(
    "decide.costs-unknown",
    "offers without a known cost, which stand last: {count}",
    "ask the sellers for the total",
)
INCOMPARABLE = template(
    "decide.incomparable",
    "selected offers with a figure that is not known, which can be neither in the Pareto set nor out of it: {count}",
    "the missing figure is the one shown as unknown",
)
TOO_LATE = frozenset((ENDS_LATE.code, TAKES_LONGER.code))
LATE = datetime.datetime.max.replace(tzinfo=datetime.UTC)
FIT_ORDER: dict[FitWord | None, int] = {"fit": 0, "borderline": 1, "overflow": 2, None: 3}
"""Order of the predictions; one beside an unknown capacity says nothing, and stands with none at all."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One offer in the order. `cost` is the planned one; `place` is shared by ties.

    `original` is the cost in the offer's own currency where `rates`, ids of records, brought it into that of the list.
    `is_late`: the hours of the plan, as far as they are guessed, come too late.
    `is_undominated`: no selected offer of the list is better (None: a figure is not known, or it is not selected).
    `next` is what to do first for one that is to confirm.
    """

    place: int
    is_tied: bool
    offer: str
    state: State
    fit: FitWord | None
    cost: Money | None
    cost_is_exact: bool
    margin_bytes: int | None
    finish: datetime.datetime | None
    preferences: tuple[bool | None, ...]
    is_undominated: bool | None = None
    next: Next | None = None
    original: Money | None = None
    rates: tuple[str, ...] = ()
    is_late: bool = False


class CurrencyList(msgspec.Struct, frozen=True, kw_only=True):
    """Offers priced in one currency; None: no price is known."""

    currency: str | None
    selected: tuple[Place, ...]
    to_confirm: tuple[Place, ...]


class Shortlist(msgspec.Struct, frozen=True, kw_only=True):
    """What to choose from and what to settle first. `excluded` only counts."""

    lists: tuple[CurrencyList, ...]
    excluded: int
    notes: tuple[Message, ...]

    @property
    def selected(self) -> tuple[Place, ...]:
        """The admissible of every list, each list in its own order."""
        return tuple(place for one in self.lists for place in one.selected)


def shortlist(card: Card, decisions: Iterable[Decision], following: Mapping[str, Next] | None = None) -> Shortlist:
    """Rank decisions; the list in the card's own currency comes first, unknown costs last.

    `following` gives the next step of those to confirm.
    """
    groups: dict[str | None, list[Decision]] = {}
    excluded = 0
    for decision in decisions:
        if decision.state == "exclude":
            excluded += 1
        else:
            groups.setdefault(decision.currency, []).append(decision)
    home = card.budget.cap.currency if isinstance(card.budget, Budget) else None
    order = sorted(groups, key=lambda currency: (currency is None, currency != home, currency or ""))
    lists = tuple(
        CurrencyList(
            currency=currency,
            selected=_selected(card, [one for one in groups[currency] if one.state == "admissible"]),
            to_confirm=_to_confirm([one for one in groups[currency] if one.state == "to_confirm"], following or {}),
        )
        for currency in order
    )
    return Shortlist(lists=lists, excluded=excluded, notes=_notes(card, order, groups, lists))


def _notes(
    card: Card,
    order: list[str | None],
    groups: Mapping[str | None, list[Decision]],
    lists: tuple[CurrencyList, ...],
) -> tuple[Message, ...]:
    notes = list(unknown_preferences(card.preferences))
    known = [currency for currency in order if currency is not None]
    if len(known) > 1:
        notes.append(CURRENCIES(currencies=known))
    unknown = sum(decision.cost.planned is None for group in groups.values() for decision in group)
    if unknown:
        notes.append(COSTS_UNKNOWN(count=unknown))
    incomparable = sum(place.is_undominated is None for one in lists for place in one.selected)
    if incomparable:
        notes.append(INCOMPARABLE(count=incomparable))
    return tuple(notes)


def _selected(card: Card, decisions: list[Decision]) -> tuple[Place, ...]:
    has_end = isinstance(card.calendar, Calendar)
    triples = {one.offer: triple for one in decisions if (triple := _triple(one, has_end)) is not None}
    best = undominated(triples)
    places: list[Place] = []
    for tied in ranked(decisions, card.ranking):
        number = len(places) + 1
        for decision in tied:
            is_best = decision.offer in best if decision.offer in triples else None
            places.append(_place(decision, number, tied, is_undominated=is_best))
    return tuple(places)


def ranked(decisions: Iterable[Decision], order: Sequence[RankBy]) -> Iterator[list[Decision]]:
    """Decisions in order, those that share a place together and sorted by their offer."""
    rows = list(decisions)
    if len(rows) < 2 or not order:
        if rows:
            yield sorted(rows, key=lambda one: one.offer)
        return
    figure = FIGURE_OF[order[0].by]
    figures = [(value, one) for one in rows if (value := figure(one)) is not None]
    figures.sort(key=_value)
    start = 0
    while start < len(figures):
        limit, end = _limit(order[0], figures[start][0]), start + 1
        while end < len(figures) and figures[end][0] <= limit:
            end += 1
        if end - start == 1:
            yield [figures[start][1]]
        else:
            yield from ranked((one for _, one in figures[start:end]), order[1:])
        start = end
    if len(figures) < len(rows):
        yield from ranked((one for one in rows if figure(one) is None), order[1:])


def _value(row: tuple[Any, Decision]) -> Any:
    return row[0]


def _limit(rank: RankBy, best: Any) -> Any:
    """The worst figure that still counts as equal to the best of a group."""
    within = rank.within
    if within is None:
        return best
    if rank.by == "cost":
        return best * (100 + within.amount) / 100
    if rank.by == "margin":
        return best + int(within.amount)
    try:
        return best + datetime.timedelta(seconds=float(within.amount * 3600))
    except OverflowError:  # beyond the last year that a date can have
        return LATE


def _triple(decision: Decision, has_end: bool) -> Figures | None:
    """Cost, margin and end as figures to compare; None while one is not known. No calendar, no end to compare."""
    cost, margin, finish = decision.planned, decision.margin, decision.finish
    if cost is None or margin is None or (has_end and finish is None):
        return None
    return cost.amount, -margin.amount_bytes, finish if has_end else 0


def _cost(decision: Decision) -> Any:
    planned = decision.planned
    return None if planned is None else planned.amount


def _margin(decision: Decision) -> Any:
    return None if decision.margin is None else -decision.margin.amount_bytes


def _finish(decision: Decision) -> Any:
    return decision.finish


def _preferences(decision: Decision) -> Any:
    return tuple(met is not True for met in decision.preferences)


FIGURE_OF: dict[Figure, Callable[[Decision], Any]] = {
    "cost": _cost,
    "margin": _margin,
    "finish": _finish,
    "preferences": _preferences,
}
"""Each figure of a decision, the smaller the better; None where it is not known."""


def _to_confirm(decisions: list[Decision], following: Mapping[str, Next]) -> tuple[Place, ...]:
    """What is not late, by predicted fit, then cost; no threshold: nothing here is chosen yet."""
    rows = sorted(((_prospect(one), one.offer, one) for one in decisions), key=lambda row: row[:2])
    places: list[Place] = []
    for _, group in itertools.groupby(rows, key=lambda row: row[0]):
        tied = [decision for _, _, decision in group]
        number = len(places) + 1
        places += [_place(one, number, tied, step=following.get(one.offer)) for one in tied]
    return tuple(places)


def _prospect(decision: Decision) -> tuple[object, ...]:
    prediction = decision.prediction
    known = prediction is not None and prediction.usable_bytes is not None
    cost = decision.planned
    return is_late(decision), FIT_ORDER[decision.fit if known else None], cost is None, cost.amount if cost else 0


def _place(
    decision: Decision,
    number: int,
    tied: list[Decision],
    *,
    is_undominated: bool | None = None,
    step: Next | None = None,
) -> Place:
    return Place(
        place=number,
        is_tied=len(tied) > 1,
        offer=decision.offer,
        state=decision.state,
        fit=decision.fit,
        cost=decision.planned,
        cost_is_exact=decision.cost.is_exact,
        margin_bytes=decision.margin.amount_bytes if decision.margin else None,
        finish=decision.finish,
        preferences=decision.preferences,
        is_undominated=is_undominated,
        next=step,
        original=decision.cost.planned if decision.converted else None,
        rates=decision.converted.records if decision.converted else (),
        is_late=is_late(decision),
    )


def is_late(decision: Decision) -> bool:
    """Does the work come too late as it is planned, though no proof excludes that it can be done?"""
    if decision.state != "to_confirm":
        return False
    return any(one.code in TOO_LATE for row in decision.criteria if row.criterion == "budget" for one in row.reasons)
