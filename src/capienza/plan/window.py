"""The time in which a plan has to be done, and the moments that follow: finish, latest start, slack.

Legend: earliest the latest of the offer's opening, the card's start and now; latest the first of the card's deadline
and the offer's closing. Between them, and within what the offer lets one use, lie hours of work: at the most, when
nothing is lost, and for certain, when what the seller ends early or what is not dated is lost. Moments are in UTC.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec

from capienza.card.model import Calendar
from capienza.plan.hours import ZERO, Hours, workable_at_most, workable_for_certain

SECONDS = Decimal(3600)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """When an offer can be used. None: not stated.

    `paid_hours` are those of a package, `usable_hours` what the seller lets one use of them or in all, `max_hours` the
    longest that it can be had.
    """

    opens: datetime.datetime | None = None
    closes: datetime.datetime | None = None
    paid_hours: Decimal | None = None
    usable_hours: Decimal | None = None
    max_hours: Decimal | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time that can be used. `latest` None: nothing ends it. Hours of work None: nothing limits them."""

    earliest: datetime.datetime
    latest: datetime.datetime | None
    most_hours: Decimal | None
    certain_hours: Decimal | None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A plan in its window. None: not known, or nothing limits it.

    `soonest` is the finish if every proved hour is enough, `finish` the one of the planned hours; `slack_hours` are
    left between `finish` and the end, negative when it comes too late; `latest_start` is that of the planned hours.
    """

    start: datetime.datetime
    soonest: datetime.datetime | None
    finish: datetime.datetime | None
    end: datetime.datetime | None
    slack_hours: Decimal | None
    latest_start: datetime.datetime | None


def window_of(terms: Terms, calendar: Calendar, now: datetime.datetime) -> Window:
    """Earliest and latest moment, and the hours of work between them."""
    starts = [utc(moment) for moment in (terms.opens, calendar.start, now) if moment is not None]
    ends = [utc(moment) for moment in (calendar.deadline, terms.closes) if moment is not None]
    earliest, latest = max(starts), min(ends, default=None)
    daily = calendar.daily_hours
    limits = [hours for hours in (terms.paid_hours, terms.max_hours) if hours is not None]
    if latest is not None:
        limits.append(max(hours_between(earliest, latest), ZERO))
    most = [workable_at_most(hours, daily) for hours in limits]
    certain = [workable_for_certain(hours, daily) for hours in (*limits, *_certain(terms, earliest))]
    if terms.usable_hours is not None:
        most.append(terms.usable_hours)
        certain.append(workable_for_certain(terms.usable_hours, daily))
    return Window(
        earliest=earliest,
        latest=latest,
        most_hours=min(most, default=None),
        certain_hours=min(certain, default=None),
    )


def schedule_of(window: Window, hours: Hours) -> Schedule:
    """The moments of a plan that begins as early as the window lets it."""
    end = window.latest
    finish = shift(window.earliest, hours.planned_elapsed) if hours.is_stated else None
    return Schedule(
        start=window.earliest,
        soonest=shift(window.earliest, hours.least_elapsed) if hours.least or hours.is_stated else None,
        finish=finish,
        end=end,
        slack_hours=None if finish is None or end is None else hours_between(finish, end),
        latest_start=shift(end, -hours.planned_elapsed) if end is not None and hours.is_stated else None,
    )


def _certain(terms: Terms, earliest: datetime.datetime) -> tuple[Decimal, ...]:
    """What is left for certain of a package with a first date: its paid hours may run from there.

    What the seller ends early may be its last hours.
    """
    if terms.paid_hours is None or terms.opens is None:
        return ()
    last = shift(utc(terms.opens), terms.paid_hours)
    ends = [moment for moment in (last, terms.closes and utc(terms.closes)) if moment is not None]
    if not ends:
        return ()
    early = ZERO if terms.usable_hours is None else max(terms.paid_hours - terms.usable_hours, ZERO)
    return (max(hours_between(earliest, min(ends)) - early, ZERO),)


def hours_between(start: datetime.datetime, end: datetime.datetime) -> Decimal:
    """Hours from one moment to another, both in UTC; negative when the second comes first."""
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
