"""A run of `plan`: the calendar of a card, and what each offer makes of it in money and time."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator

import msgspec

from capienza.card.model import NONE, Calendar, Card
from capienza.catalog.notes import Findings
from capienza.catalog.offer import GpuClaim, Offer
from capienza.decide.case import Case, Sizing
from capienza.decide.cost import Cost
from capienza.decide.criteria import budget
from capienza.decide.need import NOT_STATED, needs_of
from capienza.decide.runs import file_name
from capienza.decide.verdict import CriterionVerdict, State
from capienza.decide.waiver import apply_waivers
from capienza.decide.window import schedule_from
from capienza.errors import Message
from capienza.evidence.record import Record
from capienza.evidence.standing import standing
from capienza.plan.judge import examine
from capienza.plan.steps import Plan, plan_of
from capienza.plan.window import Schedule, Terms, schedule_of, window_of


class OfferPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One offer: the plan on its GPUs, when it can be done, what it costs, and the verdict of budget and calendar."""

    offer: Offer
    plan: Plan
    schedule: Schedule | None
    cost: Cost
    verdict: CriterionVerdict


class CalendarPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The calendar alone, on no offer: the plan, its moments from now on, and whether they hold."""

    plan: Plan
    schedule: Schedule | None
    state: State
    reasons: tuple[Message, ...]
    settle: tuple[Message, ...] = ()


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A run of `plan`. `offers` None: none were given, and `alone` says what the calendar comes to without them."""

    card: Card
    now: datetime.datetime
    alone: CalendarPlan
    offers: tuple[OfferPlan, ...] | None
    findings: Findings
    record_findings: tuple[Message, ...]


def offer_plans(cases: Iterable[Case]) -> Iterator[OfferPlan]:
    """Each case with its plan, schedule, bill and verdict."""
    for case in cases:
        calendar = case.card.calendar
        yield OfferPlan(
            offer=case.offer,
            plan=case.plan,
            schedule=schedule_from(case, calendar) if isinstance(calendar, Calendar) else None,
            cost=case.cost,
            verdict=apply_waivers(budget.judge(case), case),
        )


def calendar_alone(card: Card, records: Iterable[Record], now: datetime.datetime) -> CalendarPlan:
    """The plan of the card by itself: from its start or now to its deadline, on GPUs that nobody has chosen.

    Records count for what the card itself states; the GPU that they were made on is shown, not compared.
    """
    calendar = card.calendar
    need = needs_of(card, Sizing(), GpuClaim(name_raw=""), 1)[0]
    plan = plan_of(calendar, standing(records, now), (msgspec.structs.replace(need, gpu=None, gpus=None),))
    if not isinstance(calendar, Calendar):
        reason = budget.NOT_APPLICABLE(field="calendar") if calendar == NONE else NOT_STATED(field="calendar")
        return CalendarPlan(plan=plan, schedule=None, state="to_confirm", reasons=(reason,), settle=(reason,))
    window = window_of(Terms(), calendar, now)
    found = examine(plan, calendar, window, now, file_name(card))
    unstated = () if plan.steps else (NOT_STATED(field="calendar.steps"),)
    reasons, settle = (*found.reasons, *unstated), (*found.settle, *unstated)
    schedule = schedule_of(window, plan.hours)
    if found.failure is not None:
        return CalendarPlan(plan=plan, schedule=schedule, state="exclude", reasons=(found.failure,))
    if reasons:
        return CalendarPlan(plan=plan, schedule=schedule, state="to_confirm", reasons=reasons, settle=settle)
    enough = (found.enough,) if found.enough else ()
    return CalendarPlan(plan=plan, schedule=schedule, state="admissible", reasons=enough)
