"""Offers in, decisions out: every criterion judged, strong Kleene conjunction, nothing collapsed on the way.

Predictions and the criteria that follow from the GPU alone are worked out once for each card class (equal GPU
claims, and no record that names the single offer); an offer adds its server, its price and its dates.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from capienza.card.model import Calendar, Card
from capienza.catalog.offer import GpuClaim, Offer
from capienza.decide.case import Case, Evidence, Sizing, SizingFor, gpus_to_spread
from capienza.decide.completeness import held_back, with_curtailed
from capienza.decide.cost import cost_of
from capienza.decide.criteria.memory import observed_margin
from capienza.decide.documents import DocumentFor, Shown, document_of
from capienza.decide.driver_readings import read_sizing
from capienza.decide.need import driver_of, needs_of
from capienza.decide.policy import CRITERIA, Criterion
from capienza.decide.preferences import preferences_met
from capienza.decide.rates import converted_cost
from capienza.decide.server import job_of
from capienza.decide.verdict import STATE_OF, TRUTH_OF, CriterionVerdict, Decision, Margin, Prediction
from capienza.decide.waiver import apply_waivers
from capienza.decide.window import finish_of
from capienza.evidence.record import Record, Scope
from capienza.evidence.standing import standing
from capienza.ledger.capacity import FitWord, bounded_word, fit_word, for_training
from capienza.plan.steps import Plan, plan_of
from capienza.truth import all_of

SEVERITY: dict[FitWord, int] = {"fit": 0, "borderline": 1, "overflow": 2}


JUDGED = "judged"


class CardClass(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is judged once for all offers of one card class."""

    verdicts: dict[str, CriterionVerdict]
    prediction: Prediction | None
    margin: Margin | None

    @property
    def is_excluded(self) -> bool:
        """Does one of the shared verdicts exclude every offer of the class?"""
        return any(verdict.state == "exclude" for verdict in self.verdicts.values())


class _Known(NamedTuple):
    """What the cases of one card class share."""

    sizing: Sizing
    needs: tuple[Scope, ...]
    plan: Plan
    shared: dict[object, Any]


def decide(
    card: Card,
    offers: Iterable[Offer],
    sizing_for: SizingFor,
    records: Iterable[Record],
    now: datetime.datetime,
) -> Iterator[Decision]:
    """One decision for each offer, in the order of the offers.

    `sizing_for(claim, gpus)` gives prediction and capacity of one GPU claim with the GPUs that one copy of the
    model may be spread over; it is called once for each distinct pair. `now` decides what is expired.
    Raises `ValueError` when `now` has no offset or a record is not sealed.
    """
    return (_decision(case) for case in cases_of(card, offers, sizing_for, records, now))


def decide_possible(
    card: Card,
    offers: Iterable[Offer],
    sizing_for: SizingFor,
    records: Iterable[Record],
    now: datetime.datetime,
    document_for: DocumentFor,
) -> Iterator[Decision | None]:
    """As `decide`, in short: None for an offer that what its whole card class shares excludes.

    `document_for` is `document_of`, or one that remembers what it said of an offer.
    """
    evidence = _evidence(records, now)
    for offer, known in _in_classes(card, offers, sizing_for, evidence):
        judged: CardClass | None = known.shared.get(JUDGED)
        if judged is not None and judged.is_excluded:
            yield None
        else:
            yield _decision(_case(card, offer, known, evidence, now, document_for(offer, now)))


def cases_of(
    card: Card, offers: Iterable[Offer], sizing_for: SizingFor, records: Iterable[Record], now: datetime.datetime
) -> Iterator[Case]:
    """Each offer with what a criterion judges it by, in the order of the offers. Raises as `decide` does."""
    evidence = _evidence(records, now)
    return (
        _case(card, offer, known, evidence, now, document_of(offer, now))
        for offer, known in _in_classes(card, offers, sizing_for, evidence)
    )


def _evidence(records: Iterable[Record], now: datetime.datetime) -> Evidence:
    if now.utcoffset() is None:
        message = "now needs an offset from UTC"
        raise ValueError(message)
    return Evidence(standing(records, now))


def _in_classes(
    card: Card, offers: Iterable[Offer], sizing_for: SizingFor, evidence: Evidence
) -> Iterator[tuple[Offer, _Known]]:
    sized = functools.cache(sizing_for)
    classes: dict[tuple[GpuClaim, int, int, str | None, str | None, str | None], _Known] = {}
    for offer in offers:
        provider = offer.provider if offer.provider in evidence.providers else None
        named = offer.id if offer.id in evidence.offers else None
        driver = driver_of(offer) if evidence.states_driver else None
        gpus = gpus_to_spread(card, offer)
        # An offer with too few GPUs is told so: it is no class with those that have enough.
        key = (offer.gpu, gpus, min(gpus, offer.gpus), provider, named, driver)
        known = classes.get(key)
        if known is None:
            sizing = read_sizing(offer, gpus, evidence, sized)
            needs = needs_of(card, sizing, offer.gpu, gpus, provider, named, driver)
            plan = plan_of(card.calendar, evidence.standing, needs)
            known = classes[key] = _Known(sizing, needs, plan, {})
        yield offer, known


def _case(card: Card, offer: Offer, known: _Known, evidence: Evidence, now: datetime.datetime, shown: Shown) -> Case:
    document, problem = shown
    return Case(
        card=card,
        offer=offer,
        sizing=known.sizing,
        needs=known.needs,
        evidence=evidence,
        now=now,
        shared=known.shared,
        document=document,
        document_problem=problem,
        plan=known.plan,
        cost=cost_of(offer, job_of(known.shared, card, known.plan, known.sizing.volumes)),
    )


def _judge_class(case: Case) -> CardClass:
    verdicts = {criterion.id: _judge(criterion, case) for criterion in CRITERIA if criterion.same_for_all(case.card)}
    prediction = predict(case.card, case.sizing)
    return CardClass(
        verdicts=verdicts,
        prediction=prediction,
        margin=_margin(case, prediction),
    )


def _judge(criterion: Criterion, case: Case) -> CriterionVerdict:
    if case.evidence.is_plain:
        return criterion.judge(case)

    def judge(case: Case) -> CriterionVerdict:
        return apply_waivers(held_back(criterion.judge(case), case), case)

    return with_curtailed(judge(case), case, judge)


def _decision(case: Case) -> Decision:
    known: CardClass | None = case.shared.get(JUDGED)
    if known is None:
        known = case.shared[JUDGED] = _judge_class(case)
    criteria = tuple(known.verdicts.get(criterion.id) or _judge(criterion, case) for criterion in CRITERIA)
    truth = all_of([TRUTH_OF[row.state] for row in criteria if row.state != "not_applicable"])
    state = STATE_OF[truth]
    calendar = case.card.calendar
    finish = None
    if state != "exclude" and isinstance(calendar, Calendar):
        finish = finish_of(case, calendar)
    return Decision(
        offer=case.offer.id,
        state=state,
        criteria=criteria,
        prediction=known.prediction,
        margin=known.margin,
        cost=case.cost,
        converted=converted_cost(case),
        finish=finish,
        preferences=preferences_met(case.card.preferences, case.offer),
    )


def predict(card: Card, sizing: Sizing) -> Prediction | None:
    """The predicted peak of the GPU that is worst off, with its fit word; None without ledger or capacity."""
    if sizing.ledger is None or sizing.capacity is None:
        return None
    margin = card.margin.amount_bytes if card.margin else 0
    capacity = for_training(sizing.capacity) if card.task == "fine-tuning" else sizing.capacity
    found = [
        Prediction(
            fit=_word(fit_word(peak, capacity, margin), sizing),
            device=device,
            peak=peak,
            usable_bytes=capacity.smallest_usable_bytes,
        )
        for device in sizing.ledger.gpus
        for peak in (sizing.ledger.predicted_peak(device),)
    ]
    return max(found, key=lambda one: (SEVERITY[one.fit], one.peak.amount.expected), default=None)


def _word(word: FitWord, sizing: Sizing) -> FitWord:
    """The ledger's word, as far as the engine's own pool bears it out."""
    short = sizing.shortfall
    return word if short is None else bounded_word(word, is_refused=short.is_refused, is_covered=False)


def _margin(case: Case, prediction: Prediction | None) -> Margin | None:
    """What is left of the usable capacity: as observed when a run covers the need, else as predicted."""
    observed = observed_margin(case)
    if observed is not None:
        return Margin(amount_bytes=observed, basis="observed")
    if prediction is None or prediction.usable_bytes is None or not prediction.peak.is_complete:
        return None
    return Margin(amount_bytes=prediction.usable_bytes - prediction.peak.amount.ceiling, basis="predicted")
