"""Order of what can be chosen, each with its figures.

Selected are the admissible alone, by total package cost, then useful margin, then documented end of the work, then
the card's preferences. Beside them stand those to confirm, by predicted fit, then cost. Currencies are never
compared: each has its own list. Equal figures are a tie and share a place.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from capienza.card.model import Budget, Card
from capienza.decide.preferences import unknown_preferences
from capienza.decide.verdict import Decision, State
from capienza.errors import Message, template
from capienza.ledger.capacity import FitWord
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
LATE = datetime.datetime.max.replace(tzinfo=datetime.UTC)
FIT_ORDER: dict[FitWord | None, int] = {"fit": 0, "borderline": 1, "overflow": 2, None: 3}
"""Order of the predictions; one beside an unknown capacity says nothing, and stands with none at all."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One offer in the order. `cost` is the planned one; `place` is shared by ties."""

    place: int
    offer: str
    state: State
    fit: FitWord | None
    cost: Money | None
    cost_is_exact: bool
    margin_bytes: int | None
    finish: datetime.datetime | None
    preferences: tuple[bool | None, ...]


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


Key = tuple[object, ...]


def shortlist(card: Card, decisions: Iterable[Decision]) -> Shortlist:
    """Rank decisions; the list in the card's own currency comes first, unknown costs last."""
    groups: dict[str | None, list[Decision]] = {}
    excluded = 0
    for decision in decisions:
        if decision.state == "exclude":
            excluded += 1
        else:
            groups.setdefault(decision.cost.currency, []).append(decision)
    home = card.budget.cap.currency if isinstance(card.budget, Budget) else None
    order = sorted(groups, key=lambda currency: (currency is None, currency != home, currency or ""))
    notes = list(unknown_preferences(card.preferences))
    known = [currency for currency in order if currency is not None]
    if len(known) > 1:
        notes.append(CURRENCIES(currencies=known))
    unknown = sum(decision.cost.planned is None for group in groups.values() for decision in group)
    if unknown:
        notes.append(COSTS_UNKNOWN(count=unknown))
    lists = tuple(
        CurrencyList(
            currency=currency,
            selected=_places(groups[currency], "admissible"),
            to_confirm=_places(groups[currency], "to_confirm"),
        )
        for currency in order
    )
    return Shortlist(lists=lists, excluded=excluded, notes=tuple(notes))


def _places(decisions: list[Decision], state: State) -> tuple[Place, ...]:
    key = _admissible_key if state == "admissible" else _to_confirm_key
    rows = sorted(((key(one), one.offer, one) for one in decisions if one.state == state), key=lambda row: row[:2])
    places: list[Place] = []
    previous: Key | None = None
    for number, (figures, _, decision) in enumerate(rows, start=1):
        place = places[-1].place if previous == figures else number
        previous = figures
        places.append(
            Place(
                place=place,
                offer=decision.offer,
                state=decision.state,
                fit=decision.fit,
                cost=decision.cost.planned,
                cost_is_exact=decision.cost.is_exact,
                margin_bytes=decision.margin.amount_bytes if decision.margin else None,
                finish=decision.finish,
                preferences=decision.preferences,
            )
        )
    return tuple(places)


def _admissible_key(decision: Decision) -> Key:
    margin = decision.margin
    return (
        *_cost_key(decision),
        margin is None,
        -margin.amount_bytes if margin else 0,
        decision.finish or LATE,
        tuple(met is not True for met in decision.preferences),
    )


def _to_confirm_key(decision: Decision) -> Key:
    prediction = decision.prediction
    known = prediction is not None and prediction.usable_bytes is not None
    return (FIT_ORDER[decision.fit if known else None], *_cost_key(decision))


def _cost_key(decision: Decision) -> tuple[bool, Decimal]:
    planned = decision.cost.planned
    return (planned is None, planned.amount if planned else Decimal(0))
