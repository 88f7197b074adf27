"""Budget and calendar: the whole package within the cap, and the whole plan within the window.

The cap is compared with the total of all lots for all days. Only a documented excess excludes: the least that
must be paid is above the cap, or documented hours do not fit. An amount in another currency counts only through
a dated exchange rate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Decimal

import msgspec

from capienza.card.model import NONE, Budget, Calendar, Card
from capienza.decide.afford import affordable_hours
from capienza.decide.alike import judged_alike
from capienza.decide.case import Case
from capienza.decide.cost import HOURS_OPEN, Cost, cost_of
from capienza.decide.freshness import price_in_date
from capienza.decide.need import NOT_STATED
from capienza.decide.rates import convert, rates_of
from capienza.decide.runs import card_file
from capienza.decide.server import job_of
from capienza.decide.verdict import CriterionVerdict, EvidenceRef, Finding, cite
from capienza.decide.weigh import Stance, conclude, weigh
from capienza.decide.window import judge_calendar
from capienza.errors import Message, template
from capienza.evidence.rank import OFFER_DOCUMENT, rank
from capienza.plan.judge import settle_durations, tightest_durations
from capienza.truth import Truth
from capienza.units import Money

CRITERION = "budget"
Convert = Callable[[Cost], Cost]

NOT_APPLICABLE = template("decide.budget-not-applicable", "the card says {field}: none")
WITHIN = template("decide.cost-within", "the package costs {cost}; the cap is {cap}")
ABOVE = template(
    "decide.cost-above",
    "at least {cost} must be paid; the cap is {cap}",
    "look for a cheaper offer; a preference does not lift the cap",
)
COST_OPEN = template(
    "decide.cost-open",
    "at least {least} must be paid, {planned} as planned; the cap is {cap}",
    "look for a cheaper offer, or document what keeps the two figures apart: hours, their spread, fees, tax",
)
COST_AT_LEAST = template(
    "decide.cost-at-least",
    "at least {least} must be paid; the cap is {cap}",
    "the missing parts are named beside it",
)
CURRENCY_DIFFERS = template(
    "decide.currency-differs",
    "the offer is in {currency}, the cap in {cap_currency}, and no dated exchange rate is in the records",
    "ask for a price in {cap_currency}, or add a document with the rate",
)
SETTLE_RATE = template(
    "decide.settle-rate",
    "add a document record with exchange_rate {currency}/{cap_currency} and the date it expires",
    "put a record of it into the evidence folder",
)
CONVERTED = template(
    "decide.cost-converted",
    "{original} is {cost} at the rate of record {record}",
)


def judge(case: Case) -> CriterionVerdict:
    """Are cap and window met by what documents state?"""
    verdict = conclude(CRITERION, [_budget(case), _calendar(case)])
    steps, reasons = tightest_durations(verdict.settle), (*verdict.reasons, *_unsaid(case, verdict))
    if steps is verdict.settle and len(reasons) == len(verdict.reasons):
        return verdict
    return msgspec.structs.replace(verdict, settle=steps, reasons=reasons)


def _unsaid(case: Case, verdict: CriterionVerdict) -> list[Message]:
    """How the amount was understood, where only the calendar is open and the verdict would not say it."""
    if verdict.state != "to_confirm" or not isinstance(case.card.budget, Budget) or case.document is None:
        return []
    return [note for note in case.cost.notes if note not in verdict.reasons]


def same_for_all(card: Card) -> bool:
    """Does the card ask nothing of an offer here? Then one verdict holds for every offer."""
    return not isinstance(card.budget, Budget) and not isinstance(card.calendar, Calendar)


def _budget(case: Case) -> Finding:
    budget, cost = case.card.budget, case.cost
    if budget == NONE:
        return Finding(truth=None, reasons=(NOT_APPLICABLE(field="budget"),))
    if not isinstance(budget, Budget):
        reason = NOT_STATED(field="budget.cap")
        return Finding(truth=Truth.UNKNOWN, reasons=(reason,), settle=(reason,))
    problems = (case.document_problem,) if case.document_problem else ()
    if cost.minimum is None or case.document is None:
        return Finding(truth=Truth.UNKNOWN, reasons=problems + cost.missing, settle=problems + cost.missing)
    if cost.minimum.currency == budget.cap.currency:
        found = weigh([_stance(case, lambda bill: bill, budget.cap, OFFER_DOCUMENT, case.document)])
    else:
        found = _converted(case, cost, budget.cap, case.document)
    return price_in_date(found, case.offer.document, budget.price_age, case.now)


def _calendar(case: Case) -> Finding:
    calendar = case.card.calendar
    if calendar == NONE:
        return Finding(truth=None, reasons=(NOT_APPLICABLE(field="calendar"),))
    if not isinstance(calendar, Calendar):
        reason = NOT_STATED(field="calendar")
        return Finding(truth=Truth.UNKNOWN, reasons=(reason,), settle=(reason,))
    price = case.offer.price
    terms = (price.kind, price.starts_at, price.ends_at, price.term_hours, price.usable_hours, price.max_hours)
    key = ("calendar", *terms, price.interruptible)
    return judged_alike(case, key, lambda case: judge_calendar(case, calendar))


def _stance(case: Case, by_rate: Convert, cap: Money, weight: int, evidence: EvidenceRef) -> Stance:
    """What the cost comes to, brought into the currency of the cap by `by_rate`."""
    cost = by_rate(case.cost)
    least, planned = cost.minimum or cap, cost.planned
    if least.amount > cap.amount:
        reasons = (ABOVE(cost=least, cap=cap), *cost.notes)
        return Stance(says="violates", rank=weight, evidence=evidence, reasons=reasons)
    if cost.is_exact and planned is not None and planned.amount <= cap.amount:
        reasons = (WITHIN(cost=planned, cap=cap), *cost.notes)
        return Stance(says="supports", rank=weight, evidence=evidence, reasons=reasons)
    open_cost = (
        COST_AT_LEAST(least=least, cap=cap) if planned is None else COST_OPEN(least=least, planned=planned, cap=cap)
    )
    return Stance(
        says="doubts",
        rank=weight,
        evidence=evidence,
        reasons=(open_cost, *cost.missing, *cost.notes),
        settle=_settle(case, by_rate, cap) or (open_cost,),
    )


def _settle(case: Case, by_rate: Convert, cap: Money) -> tuple[Message, ...]:
    """What is missing of the bill; hours that are not known are settled by measuring them, within what the cap pays."""
    missing = tuple(one for one in case.cost.missing if one.code != HOURS_OPEN.code)
    durations = _durations(case, by_rate, cap) if case.plan.steps else ()
    return (*(missing or case.cost.notes), *durations)


def _durations(case: Case, by_rate: Convert, cap: Money) -> tuple[Message, ...]:
    """The measurement of hypothetical durations, with the hours that the cap pays for."""
    plan = case.plan
    if plan.hours.is_documented:
        return ()
    job = job_of(case.shared, case.card, plan, case.sizing.volumes)

    def bill(planned: Decimal) -> Cost:
        hours = plan.hours_for(plan.without_contingency(planned))
        return by_rate(cost_of(case.offer, msgspec.structs.replace(job, hours=hours)))

    hours = affordable_hours(case.offer, bill, cap.amount, plan.hours.planned)
    return (settle_durations(plan, hours, card_file(case)),)


def _converted(case: Case, cost: Cost, cap: Money, document: EvidenceRef) -> Finding:
    """The comparison through each exchange rate on record, weighed like any other statements."""
    stances = []
    rates, reasons = rates_of(case, cap.currency)
    for record, factor in rates:
        by_rate = functools.partial(convert, factor, cap.currency)
        converted = by_rate(cost)
        if converted.minimum is not None:
            note = CONVERTED(original=cost.minimum, cost=converted.minimum, record=record.id[:12])
            stance = _stance(case, by_rate, cap, rank(record), cite(record))
            stances.append(msgspec.structs.replace(stance, reasons=(*stance.reasons, note)))
    if not stances:
        currencies = {"currency": cost.currency or "", "cap_currency": cap.currency}
        return Finding(
            truth=Truth.UNKNOWN,
            reasons=(CURRENCY_DIFFERS(**currencies), *reasons),
            evidence=(document,),
            settle=(SETTLE_RATE(**currencies),),
        )
    finding = weigh(stances)
    return msgspec.structs.replace(finding, evidence=(document, *finding.evidence))
