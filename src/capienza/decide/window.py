"""When the work can be done: the card's calendar against the documented time of the offer.

Legend: h hour; opens first moment the cards may be used; earliest the latest of opens, the card's start and now;
available hours from earliest to the first of deadline and closing, and no more than the offer's usable or longest
time. All moments are compared in UTC. No duration is presumed: hypothetical hours neither confirm nor exclude.
"""

from __future__ import annotations

import datetime
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import NamedTuple

import msgspec

from capienza.card.model import Calendar
from capienza.catalog.offer import Offer
from capienza.decide.case import Case
from capienza.decide.cost import SECONDS, Hours
from capienza.decide.documents import Stated, stated_values
from capienza.decide.need import NOT_STATED
from capienza.decide.runs import card_file
from capienza.decide.verdict import Finding
from capienza.decide.weigh import Stance, weigh
from capienza.errors import Message, phrase, template
from capienza.truth import Truth

DEADLINE_PASSED = template(
    "decide.deadline-passed",
    "the deadline {deadline} has passed",
    "change calendar.deadline in the card",
)
WINDOW_SHUT = template(
    "decide.window-shut",
    "the GPUs can be used from {earliest}, and the time ends on {latest}",
    "ask the seller for an earlier start",
)
WINDOW_SHORT = template(
    "decide.window-short",
    "the plan has {needed} {hours}; {available} can be used",
    "look for a longer or earlier offer",
)
WINDOW_ENOUGH = template(
    "decide.window-enough",
    "the plan has {needed} {hours}; {available} can be used",
)
WINDOW_OPEN = template(
    "decide.window-open",
    "the plan has {needed} {hours}, and no deadline or end of the offer limits them",
)
HYPOTHETICAL = template(
    "decide.durations-hypothetical",
    "{hypothetical} of {planned} planned hours are hypothetical",
    "a measured pilot confirms a duration; write basis: measured beside it",
)
SETTLE_HYPOTHETICAL = template(
    "decide.settle-durations",
    "measure the steps in a pilot and write their hours with basis: measured; at most {available} settle it",
    "run a pilot of {card} and record how long it took",
)
SETTLE_DURATIONS = template(
    "decide.settle-durations-open",
    "measure the steps in a pilot and write their hours with basis: measured",
    "run a pilot of {card} and record how long it took",
)
NO_TIME = template(
    "decide.settle-no-time",
    "whatever the steps take, the cap or the calendar leaves this offer no time for them",
    "look for an offer that costs less, or can be used earlier or longer",
)
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


PROVED_HOURS = {
    ("documented",): phrase("documented hours"),
    ("measured",): phrase("measured hours"),
    ("documented", "measured"): phrase("measured or documented hours"),
}
"""The hours that count, by what the card says they rest on."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time that can be used when the cards open at a given moment. None: not limited or not known."""

    earliest: datetime.datetime
    latest: datetime.datetime | None
    available_hours: Decimal | None


def window_of(case: Case, calendar: Calendar, opens: datetime.datetime | None) -> Window:
    """Earliest and latest moment, and the hours between them that the offer lets one use."""
    price = case.offer.price
    starts = [utc(moment) for moment in (opens, calendar.start, case.now) if moment is not None]
    ends = [utc(moment) for moment in (calendar.deadline, price.ends_at) if moment is not None]
    earliest, latest = max(starts), min(ends, default=None)
    limits = list(_hour_limits(case.offer))
    if latest is not None:
        limits.append(max(hours_between(earliest, latest), Decimal(0)))
    return Window(earliest=earliest, latest=latest, available_hours=min(limits, default=None))


def judge_calendar(case: Case, calendar: Calendar, hours: Hours) -> Finding:
    """Can the plan be done in the documented time, by documented durations?"""
    if calendar.start is None and calendar.deadline is None and not calendar.steps:
        reason = NOT_STATED(field="calendar.deadline")
        return Finding(truth=Truth.UNKNOWN, reasons=(reason,), settle=(reason,))
    if case.document is None:
        problem = (case.document_problem,) if case.document_problem else ()
        return Finding(truth=Truth.UNKNOWN, reasons=problem, settle=problem)
    openings, unreadable = _openings(case)
    stances = [_stance(case, calendar, hours, opening) for opening in openings]
    finding = weigh(stances)
    if finding.truth is not Truth.TRUE:
        return msgspec.structs.replace(finding, reasons=(*finding.reasons, *unreadable))
    return finding


def finish_of(case: Case, calendar: Calendar, hours: Hours) -> datetime.datetime | None:
    """The documented end of the work: documented durations from a documented start; None without both.

    Where the seller may interrupt the use, a documented duration does not hold.
    """
    if not hours.is_documented or case.document is None or case.offer.price.interruptible:
        return None
    openings = [moment for moment, _ in _openings(case)[0] if moment is not None]
    if not openings:
        return None
    return shift(_examined(case, calendar, hours, max(openings)).window.earliest, hours.planned)


def settle_durations(case: Case, available: Decimal | None) -> Message:
    """The measurement that settles the durations, with the hours it may come to; None: nothing limits them."""
    if available is None:
        return SETTLE_DURATIONS(card=card_file(case))
    if available <= 0:
        return NO_TIME()
    return SETTLE_HYPOTHETICAL(available=show_hours(available, ROUND_FLOOR), card=card_file(case))


def tightest_durations(steps: tuple[Message, ...]) -> tuple[Message, ...]:
    """The steps, with what settles the durations said once: cap and calendar both have to hold."""
    limits = [step for step in steps if step.code in (SETTLE_DURATIONS.code, SETTLE_HYPOTHETICAL.code, NO_TIME.code)]
    if len(limits) < 2:
        return steps
    tightest = min(limits, key=_limit)
    return tuple(dict.fromkeys(tightest if step in limits else step for step in steps))


def _limit(step: Message) -> Decimal:
    return Decimal(0) if step.code == NO_TIME.code else Decimal(str(step.parameters.get("available", "Infinity")))


def hours_between(start: datetime.datetime, end: datetime.datetime) -> Decimal:
    """Hours from one moment to another, both in UTC."""
    span = end - start
    return (Decimal(span.days) * 86400 + span.seconds) / SECONDS


def shift(moment: datetime.datetime, hours: Decimal) -> datetime.datetime | None:
    """The moment some hours later; None where no calendar reaches."""
    try:
        return moment + datetime.timedelta(seconds=float(hours * SECONDS))
    except OverflowError:
        return None


def utc(moment: datetime.datetime) -> datetime.datetime:
    """The moment in UTC: two moments of one time zone are otherwise compared by the clock on the wall."""
    try:
        return moment.astimezone(datetime.UTC)
    except OverflowError:
        return moment.replace(tzinfo=datetime.UTC)


def show_hours(hours: Decimal, rounding: str = ROUND_HALF_EVEN) -> str:
    """Hours without needless zeros; a limit is rounded down."""
    return f"{hours.quantize(Decimal('0.01'), rounding).normalize():f}"


def _hour_limits(offer: Offer) -> tuple[Decimal, ...]:
    price = offer.price
    package = price.term_hours if price.kind == "total" else None
    return tuple(hours for hours in (price.usable_hours, package, price.max_hours) if hours is not None)


def _openings(case: Case) -> tuple[list[tuple[datetime.datetime | None, Stated]], list[Message]]:
    """Each documented start with its source; the offer's document alone, with no start, when none is stated."""
    openings: list[tuple[datetime.datetime | None, Stated]] = []
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


def _stance(case: Case, calendar: Calendar, hours: Hours, opening: tuple[datetime.datetime | None, Stated]) -> Stance:
    """What one documented start comes to."""
    opens, stated = opening
    window, failure, reasons, settle = _examined(case, calendar, hours, opens)
    if failure is not None:
        return Stance(says="violates", rank=stated.rank, evidence=stated.evidence, reasons=(failure,))
    if reasons or stated.doubts:
        return Stance(
            says="doubts",
            rank=stated.rank,
            evidence=stated.evidence,
            reasons=(*reasons, *stated.doubts),
            settle=(*settle, *stated.doubts),
        )
    available, words = window.available_hours, _proved(calendar, hours)
    enough = WINDOW_OPEN(**words) if available is None else WINDOW_ENOUGH(**words, available=show_hours(available))
    return Stance(says="supports", rank=stated.rank, evidence=stated.evidence, reasons=(enough,))


class _Examined(NamedTuple):
    """What a window comes to, whatever document states it."""

    window: Window
    failure: Message | None
    reasons: list[Message]
    settle: list[Message]


def _examined(case: Case, calendar: Calendar, hours: Hours, opens: datetime.datetime | None) -> _Examined:
    """Worked out once for all offers of a card class that have the same dates, hours and terms."""
    price = case.offer.price
    key = ("window", opens, price.ends_at, _hour_limits(case.offer), price.interruptible)
    known: _Examined | None = case.shared.get(key)
    if known is None:
        window = window_of(case, calendar, opens)
        failure = _failure(case, calendar, hours, window)
        reasons, settle = _open_points(case, hours, window, opens)
        known = case.shared[key] = _Examined(window, failure, reasons, settle)
    return known


def _failure(case: Case, calendar: Calendar, hours: Hours, window: Window) -> Message | None:
    if calendar.deadline is not None and utc(calendar.deadline) <= utc(case.now):
        return DEADLINE_PASSED(deadline=calendar.deadline.isoformat())
    if window.latest is not None and window.latest <= window.earliest:
        return WINDOW_SHUT(earliest=window.earliest.isoformat(), latest=window.latest.isoformat())
    if window.available_hours is not None and hours.documented > window.available_hours:
        return WINDOW_SHORT(**_proved(calendar, hours), available=show_hours(window.available_hours))
    return None


def _proved(calendar: Calendar, hours: Hours) -> dict[str, str]:
    """How many hours count, under the name of what they rest on."""
    bases = tuple(sorted({step.basis for step in calendar.steps} - {"hypothetical"}))
    return {"needed": show_hours(hours.documented), "hours": PROVED_HOURS[bases]}


def _open_points(
    case: Case, hours: Hours, window: Window, opens: datetime.datetime | None
) -> tuple[list[Message], list[Message]]:
    """What keeps a window from being confirmed, and what would settle each point."""
    reasons: list[Message] = []
    settle: list[Message] = []
    if not hours.is_stated:
        reason = NOT_STATED(field="calendar.steps")
        reasons.append(reason)
        settle.append(reason)
    elif not hours.is_documented:
        hypothetical = hours.planned - hours.documented
        reasons.append(HYPOTHETICAL(hypothetical=show_hours(hypothetical), planned=show_hours(hours.planned)))
        settle.append(settle_durations(case, window.available_hours))
    if opens is None and window.latest is not None:
        reasons.append(START_UNDOCUMENTED())
        latest_start = shift(window.latest, -hours.planned) or window.earliest
        settle.append(SETTLE_START(latest_start=max(latest_start, window.earliest).isoformat()))
    if case.offer.price.interruptible:
        reasons.append(INTERRUPTIBLE())
        settle.append(INTERRUPTIBLE())
    return reasons, settle
