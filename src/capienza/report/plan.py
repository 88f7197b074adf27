"""The answer of `plan` as a document and as JSON (`capienza.plan/1`)."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from capienza.canon import plain
from capienza.decide.planning import OfferPlan, Planned
from capienza.i18n.translator import Say, mark
from capienza.plan.steps import Plan, PlannedStep
from capienza.plan.window import Schedule
from capienza.report.bill import bill_table, cost_data
from capienza.report.blocks import Block, Document, Heading, Items, Paragraph, Table
from capienza.report.decide import STATE_LABELS
from capienza.report.messages import message_data, sentence
from capienza.report.offers import findings_blocks, findings_data
from capienza.report.tool import TOOL

PLAN_SCHEMA = "capienza.plan/1"
BASIS_LABELS = {
    "hypothetical": mark("hypothetical"),
    "measured": mark("measured"),
    "documented": mark("documented"),
}
STATE_ORDER = ("admissible", "not_applicable", "to_confirm", "exclude")
KEPT_ROWS = 40
KEPT_BILLS = 12
"""Rows of the table of offers, and offers shown in full below it; --json has all of them."""


def states_of(planned: Planned) -> set[str]:
    """The verdicts of budget and calendar: of the offers, or of the calendar alone where none were given."""
    return {planned.alone.state} if planned.offers is None else {one.verdict.state for one in planned.offers}


def plan_data(planned: Planned) -> dict[str, Any]:
    """The plan, and what each offer makes of it; hours are decimal strings, null is not known."""
    alone, card = planned.alone, planned.card
    return {
        "schema": PLAN_SCHEMA,
        "tool": TOOL,
        "now": planned.now,
        "card": {"name": card.name, "file": card.file, "sha256": card.sha256},
        "calendar": {
            **_plan_data(alone.plan, alone.schedule),
            "state": alone.state,
            "reasons": [message_data(reason) for reason in alone.reasons],
            "settle": [message_data(step) for step in alone.settle],
        },
        "offers": None if planned.offers is None else [_offer_data(one) for one in planned.offers],
        "findings": findings_data(planned.findings),
        "record_findings": [message_data(finding) for finding in planned.record_findings],
    }


def plan_document(planned: Planned, say: Say) -> Document:
    """Steps, then offers with their moments and bills; without offers what the calendar alone comes to."""
    say = say.in_zone(planned.card.zone or datetime.UTC)
    blocks: list[Block] = [Heading(say("Plan: {name}", name=planned.card.name), 1)]
    if planned.offers is None:
        alone = planned.alone
        blocks += [*_steps(alone.plan, say), *_moments(alone.schedule, say)]
        blocks.append(Paragraph(say("The calendar alone: {state}.", state=say(STATE_LABELS[alone.state]))))
        blocks += _items(say("Reasons"), alone.reasons, say)
        blocks += _items(say("What would settle it"), alone.settle, say)
    else:
        ordered = sorted(planned.offers, key=lambda one: STATE_ORDER.index(one.verdict.state))
        blocks += [*_plans(planned, say), *_offers(ordered, say)]
        for one in ordered[:KEPT_BILLS]:
            blocks += _offer(one, say)
        blocks += _left_out(len(ordered) - KEPT_BILLS, say)
    blocks += _items("", planned.record_findings, say)
    return (*blocks, *findings_blocks(planned.findings, say))


def _plan_data(plan: Plan, schedule: Schedule | None) -> dict[str, Any]:
    hours = plan.hours
    return {
        "steps": [
            {
                "name": step.name,
                "least_hours": _written(step.least),
                "planned_hours": _written(step.planned),
                "basis": step.basis,
                "records": [record.id for record in step.records],
                "is_own_word": step.is_own_word,
                "reasons": [message_data(reason) for reason in step.reasons],
                "notes": [message_data(note) for note in step.notes],
            }
            for step in plan.steps
        ],
        "contingency_percent": _written(plan.contingency_percent),
        "daily_hours": _written(hours.daily),
        "least_hours": _written(hours.least),
        "planned_hours": _written(hours.planned if hours.is_stated else None),
        "is_documented": hours.is_documented,
        "schedule": schedule and {**plain(schedule), "slack_hours": _written(schedule.slack_hours)},
    }


def _offer_data(one: OfferPlan) -> dict[str, Any]:
    verdict = one.verdict
    return {
        "offer": one.offer.id,
        "provider": one.offer.provider,
        "gpu": one.offer.gpu.name_raw,
        "gpus": one.offer.gpus,
        **_plan_data(one.plan, one.schedule),
        "cost": cost_data(one.cost),
        "state": verdict.state,
        "reasons": [message_data(reason) for reason in verdict.reasons],
        "evidence": list(verdict.evidence),
        "settle": [message_data(step) for step in verdict.settle],
        "waiver": verdict.waiver,
    }


def _plans(planned: Planned, say: Say) -> list[Block]:
    """The steps once for each way they come out; a pilot speaks of one GPU and not of another."""
    assert planned.offers is not None
    # All offers of a card class share one plan; those of two classes are often alike.
    classes: dict[int, tuple[Plan, dict[str, None]]] = {}
    for one in planned.offers:
        classes.setdefault(id(one.plan), (one.plan, {}))[1][one.offer.gpu.name_raw] = None
    groups: list[tuple[Plan, dict[str, None]]] = []
    for plan, gpus in classes.values():
        alike = next((known for other, known in groups if other == plan), None)
        if alike is None:
            groups.append((plan, gpus))
        else:
            alike.update(gpus)
    if len(groups) < 2:
        return _steps(groups[0][0] if groups else planned.alone.plan, say)
    blocks: list[Block] = []
    for plan, gpus in groups:
        blocks += _steps(plan, say, ", ".join(gpus))
    return blocks


def _steps(plan: Plan, say: Say, gpus: str = "") -> list[Block]:
    heading = Heading(say("Steps on {gpus}", gpus=gpus) if gpus else say("Steps"))
    if not plan.steps:
        return [heading, Paragraph(say("The card states no steps."))]
    rows = [_step_row(step, say) for step in plan.steps]
    hours = plan.hours
    if plan.contingency_percent is not None:
        added = plan.without_contingency(hours.planned)
        text = f"{say.number(plan.contingency_percent)} % x {_hours(added, say)}"
        rows.append((say("contingency"), "", _hours(hours.planned - added, say), "", text))
    all_hours = hours.planned if hours.is_stated else None
    rows.append((say("in all"), _hours(hours.least, say), _hours(all_hours, say), "", ""))
    columns = (say("step"), say("hours at the least"), say("hours planned"), say("basis"), say("rests on"))
    blocks: list[Block] = [heading, Table(columns=columns, rows=tuple(rows), numeric=(1, 2), whole=(0, 1, 2))]
    if hours.daily is not None:
        daily, least = _hours(hours.daily, say), _hours(hours.least_elapsed, say)
        text = say(
            "There is work in {daily} hours of each day: at least {least} hours go by.", daily=daily, least=least
        )
        if hours.is_stated:
            planned = _hours(hours.planned_elapsed, say)
            text = say(
                "There is work in {daily} hours of each day: {least} to {planned} hours go by.",
                daily=daily,
                least=least,
                planned=planned,
            )
        blocks.append(Paragraph(text))
    if plan.reasons or plan.notes:
        blocks.append(Items(tuple(sentence(message, say) for message in (*plan.reasons, *plan.notes))))
    return blocks


def _step_row(step: PlannedStep, say: Say) -> tuple[str, ...]:
    records = ", ".join(f"{record.id[:12]} ({record.scope.gpu or say('any GPU')})" for record in step.records)
    own_word = say("the card's own word") if step.is_own_word else ""
    basis = say(BASIS_LABELS[step.basis])
    return (step.name, _hours(step.least, say), _hours(step.planned, say), basis, records or own_word or say("nothing"))


def _moments(schedule: Schedule | None, say: Say) -> list[Block]:
    if schedule is None:
        return []
    rows = ((*_schedule_cells(schedule, say), _moment(schedule.latest_start, say)),)
    return [Table(columns=(*_schedule_columns(say), say("latest start")), rows=rows, numeric=(4,), whole=(0, 1, 2, 3))]


def _schedule_columns(say: Say) -> tuple[str, ...]:
    return (say("begins"), say("done at the soonest"), say("done as planned"), say("must end"), say("hours left"))


def _schedule_cells(schedule: Schedule | None, say: Say) -> tuple[str, ...]:
    if schedule is None:
        return ("", "", "", "", "")
    return (
        _moment(schedule.start, say),
        _moment(schedule.soonest, say),
        _moment(schedule.finish, say),
        say("no end") if schedule.end is None else _moment(schedule.end, say),
        _hours(schedule.slack_hours, say),
    )


def _offers(ordered: list[OfferPlan], say: Say) -> list[Block]:
    rows = tuple(
        (
            one.offer.id,
            *_schedule_cells(one.schedule, say),
            *(say("unknown") if cost is None else say.money(cost) for cost in (one.cost.minimum, one.cost.planned)),
            say(STATE_LABELS[one.verdict.state]),
        )
        for one in ordered[:KEPT_ROWS]
    )
    columns = (say("offer"), *_schedule_columns(say), say("cost at the least"), say("cost as planned"), say("verdict"))
    table = Table(columns=columns, rows=rows, numeric=(5, 6, 7), whole=tuple(range(len(columns))))
    note = Paragraph(say("The verdict is that of budget and calendar alone; capienza decide has all six criteria."))
    return [Heading(say("Offers")), table, note, *_left_out(len(ordered) - KEPT_ROWS, say)]


def _offer(one: OfferPlan, say: Say) -> list[Block]:
    """One offer in full: its bill, why its verdict is what it is, and what would settle it."""
    state = say(STATE_LABELS[one.verdict.state])
    blocks: list[Block] = [Heading(f"{one.offer.id}: {state}"), bill_table(one.cost, say)]
    if one.verdict.reasons:
        blocks.append(Items(tuple(sentence(reason, say) for reason in one.verdict.reasons)))
    if one.verdict.settle and one.verdict.settle != one.verdict.reasons:
        blocks += [
            Paragraph(say("What would settle it")),
            Items(tuple(sentence(step, say) for step in one.verdict.settle)),
        ]
    return blocks


def _items(heading: str, messages: tuple[Any, ...], say: Say) -> list[Block]:
    if not messages:
        return []
    items = Items(tuple(sentence(message, say) for message in messages))
    return [Heading(heading), items] if heading else [items]


def _left_out(count: int, say: Say) -> list[Block]:
    if count <= 0:
        return []
    return [Paragraph(say("Not shown here: {count} more; --json has all of them.", count=say.number(count)))]


def _written(number: Decimal | None) -> str | None:
    """A number for a JSON document: all its digits, no exponent."""
    return None if number is None else f"{number:f}"


def _hours(hours: Decimal | None, say: Say) -> str:
    if hours is None:
        return say("unknown")
    short = hours.quantize(Decimal("0.01")).normalize()
    exponent = short.as_tuple().exponent
    return say.number(short, max(0, -exponent) if isinstance(exponent, int) else 0)


def _moment(moment: datetime.datetime | None, say: Say) -> str:
    return say("unknown") if moment is None else say.moment(moment)
