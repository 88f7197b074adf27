"""When the work can be done: the plan of the card against the documented time of the offer.

No duration is presumed: hypothetical hours neither confirm nor exclude. A documented start that the offer's document
and other records state is judged by itself; the statements are weighed like any others.
"""

from __future__ import annotations

import datetime

import msgspec

from capienza.card.model import Calendar
from capienza.catalog.offer import Offer
from capienza.decide.case import Case
from capienza.decide.documents import Stated, stated_values
from capienza.decide.need import NOT_STATED
from capienza.decide.runs import card_file
from capienza.decide.verdict import Finding, cite
from capienza.decide.weigh import CONFLICT, OVERRIDDEN, Stance, name, weigh
from capienza.errors import Message, template
from capienza.plan.judge import Examined, examine
from capienza.plan.window import Schedule, Terms, Window, schedule_of, shift, window_of
from capienza.truth import Truth

START_UNDOCUMENTED = template(
    "decide.start-undocumented",
    "no document says from when the GPUs can be used; a stock notice is a wish",
    "ask the seller for a confirmed start",
)
SETTLE_START = template(
    "decide.settle-start",
    "have the document state the start (starts in the offers file); {latest_start} or earlier settles it",
    "ask the seller",
)
SETTLE_START_OPEN = template(
    "decide.settle-start-open",
    "have the document state the start (starts in the offers file), early enough for the plan to end by {latest}",
    "ask the seller; how long the plan takes is open as well",
)
INTERRUPTIBLE = template(
    "decide.interruptible",
    "the seller may interrupt the use, so a documented duration does not hold",
    "ask for a price that is not interruptible",
)
START_UNREADABLE = template(
    "decide.start-unreadable",
    "document {document} states starts_at as {found}, which is not a moment with an offset",
    "write it as 2026-12-07T08:00:00Z",
)
Opening = tuple[datetime.datetime | None, Stated]


def judge_calendar(case: Case, calendar: Calendar) -> Finding:
    """Can the plan be done in the documented time, by documented durations?"""
    if calendar.start is None and calendar.deadline is None and not calendar.steps:
        reason = NOT_STATED(field="calendar.deadline")
        return Finding(truth=Truth.UNKNOWN, reasons=(reason,), settle=(reason,))
    if case.document is None:
        problem = (case.document_problem,) if case.document_problem else ()
        return Finding(truth=Truth.UNKNOWN, reasons=problem, settle=problem)
    openings, unreadable = _openings(case)
    finding = _weigh_starts([(_stance(case, calendar, opening), opening) for opening in openings])
    if case.plan.records:
        proofs = tuple(cite(record) for record in case.plan.records)
        finding = msgspec.structs.replace(finding, evidence=(*finding.evidence, *proofs))
    if finding.truth is not Truth.TRUE and unreadable:
        return msgspec.structs.replace(finding, reasons=(*finding.reasons, *unreadable))
    return finding


def _weigh_starts(stances: list[tuple[Stance, Opening]]) -> Finding:
    """A start replaces one of lower rank, and contradicts one of its own, even where the plan may take longer.

    Hours that are not known are no reason to fall back on a weaker date.
    """
    given = [stance for stance, _ in stances]
    top = max((stance.rank or 0 for stance in given if stance.says != "doubts"), default=0)
    open_ranks = [stance.rank or 0 for stance, (_, stated) in stances if stance.says == "doubts" and not stated.doubts]
    top = max([top, *open_ranks])
    failing = [stance for stance in given if stance.says == "violates"]
    if top not in open_ranks or any(stance.says == "supports" and stance.rank == top for stance in given):
        return weigh(given)
    finding = weigh(stance for stance in given if stance not in failing)
    higher = next(stance for stance in given if stance.says == "doubts" and (stance.rank or 0) == top)
    told = [
        CONFLICT(statements=[name(stance), name(higher)])
        if stance.rank == top
        else OVERRIDDEN(lower=name(stance), higher=name(higher))
        for stance in failing
    ]
    failures = (*finding.failures, *(stance.evidence for stance in failing))
    return msgspec.structs.replace(finding, reasons=(*finding.reasons, *told), failures=failures)


def finish_of(case: Case, calendar: Calendar) -> datetime.datetime | None:
    """The documented end of the work: documented durations from a documented start; None without both.

    Where the seller may interrupt the use, a documented duration does not hold.
    """
    if not case.plan.hours.is_documented or case.document is None or case.offer.price.interruptible:
        return None
    openings = [moment for moment, _ in _openings(case)[0] if moment is not None]
    return schedule_of(_examined(case, calendar, max(openings)).window, case.plan.hours).finish if openings else None


def schedule_from(case: Case, calendar: Calendar) -> Schedule:
    """The moments of the plan on this offer, from the latest start that a document states; else from the earliest."""
    openings = [moment for moment, _ in _openings(case)[0] if moment is not None]
    window = _examined(case, calendar, max(openings, default=None)).window
    return schedule_of(window, case.plan.hours)


def terms_of(offer: Offer, opens: datetime.datetime | None) -> Terms:
    """What an offer says of its time, with a documented start."""
    price = offer.price
    return Terms(
        opens=opens,
        closes=price.ends_at,
        paid_hours=price.term_hours if price.kind == "total" else None,
        usable_hours=price.usable_hours,
        max_hours=price.max_hours,
    )


def _openings(case: Case) -> tuple[list[Opening], list[Message]]:
    """Each documented start with its source; the offer's document alone, with no start, when none is stated."""
    openings: list[Opening] = []
    unreadable = []
    starts_at = case.offer.price.starts_at
    for stated in stated_values(case, "starts_at", starts_at.isoformat() if starts_at else None):
        try:
            moment = datetime.datetime.fromisoformat(str(stated.value))
        except ValueError:
            moment = None
        if moment is None or moment.utcoffset() is None:
            unreadable.append(START_UNREADABLE(document=stated.evidence.id[:12], found=str(stated.value)[:64]))
        else:
            openings.append((moment, stated))
    if not openings and case.document is not None:
        openings.append((None, Stated("", 0, case.document)))
    return openings, unreadable


def _stance(case: Case, calendar: Calendar, opening: Opening) -> Stance:
    """What one documented start comes to."""
    opens, stated = opening
    found = _examined(case, calendar, opens)
    notes = case.plan.notes
    if found.failure is not None:
        reasons = (found.failure, *notes)
        return Stance(says="violates", rank=stated.rank, evidence=stated.evidence, reasons=reasons)
    if found.reasons or stated.doubts:
        return Stance(
            says="doubts",
            rank=stated.rank,
            evidence=stated.evidence,
            reasons=(*found.reasons, *notes, *stated.doubts),
            settle=(*found.settle, *stated.doubts),
        )
    reasons = (*((found.enough,) if found.enough else ()), *notes)
    return Stance(says="supports", rank=stated.rank, evidence=stated.evidence, reasons=reasons)


def _examined(case: Case, calendar: Calendar, opens: datetime.datetime | None) -> Examined:
    """Worked out once for all offers of a card class that have the same dates, hours and terms."""
    terms = terms_of(case.offer, opens)
    key = ("window", terms, case.offer.price.interruptible)
    known: Examined | None = case.shared.get(key)
    if known is None:
        window = window_of(terms, calendar, case.now)
        found = examine(case.plan, calendar, window, case.now, card_file(case))
        known = case.shared[key] = found if found.failure else _with_open_points(case, found, opens)
    return known


def _with_open_points(case: Case, found: Examined, opens: datetime.datetime | None) -> Examined:
    """What the card and the offer leave open beside the hours, and what would settle each point."""
    reasons, settle = [*found.reasons], [*found.settle]
    if not case.plan.steps:
        reason = NOT_STATED(field="calendar.steps")
        reasons.append(reason)
        settle.append(reason)
    if opens is None and found.window.latest is not None:
        reasons.append(START_UNDOCUMENTED())
        settle.append(_settle_start(case, found.window, found.window.latest))
    if case.offer.price.interruptible:
        reasons.append(INTERRUPTIBLE())
        settle.append(INTERRUPTIBLE())
    return msgspec.structs.replace(found, reasons=tuple(reasons), settle=tuple(settle))


def _settle_start(case: Case, window: Window, latest: datetime.datetime) -> Message:
    """The latest start; none is named while hours are not known, or too many for any start that can still be."""
    start = shift(latest, -case.plan.hours.planned_elapsed) if case.plan.hours.is_stated else None
    if start is None or start < window.earliest:
        return SETTLE_START_OPEN(latest=latest.isoformat())
    return SETTLE_START(latest_start=start.isoformat())
