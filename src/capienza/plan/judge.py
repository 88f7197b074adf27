"""Does a plan fit its window? What fails, what is open, and what would settle it.

No duration is presumed: hypothetical hours neither confirm nor exclude. Proved hours that exceed the most there can be
fail; planned hours within what is certain are enough; what lies between is open.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

import msgspec

from capienza.card.model import Calendar
from capienza.errors import Message, phrase, template
from capienza.plan.hours import ZERO
from capienza.plan.steps import Plan
from capienza.plan.window import Window, schedule_of, utc

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
WINDOW_ENOUGH_WITH = template(
    "decide.window-enough-with-contingency",
    "the plan has {needed} {hours}, {planned} with the contingency; {available} can be used",
)
WINDOW_OPEN_WITH = template(
    "decide.window-open-with-contingency",
    "the plan has {needed} {hours}, {planned} with the contingency, and no deadline or end of the offer limits them",
)
WINDOW_TIGHT = template(
    "decide.window-tight",
    "the plan has {planned} hours with spread and contingency; {certain} can be used for certain, {available} at most",
    "look for a longer or earlier offer, have the document state when it ends, or measure again with less spread",
)
HYPOTHETICAL = template(
    "decide.durations-hypothetical",
    "{hypothetical} of {planned} planned hours are hypothetical: {steps}",
    "a measured pilot confirms a duration; write basis: measured beside it",
)
HOURS_UNKNOWN = template(
    "decide.durations-unknown",
    "the hours of {steps} are not known",
    "a measured pilot on this GPU tells them",
)
ENDS_LATE = template(
    "decide.ends-late",
    "as planned the work ends {late} hours too late: it takes {planned}, and its time ends on {latest}",
    "look for an earlier offer, or measure that the work takes less",
)
TAKES_LONGER = template(
    "decide.takes-longer",
    "as planned the work takes {planned} hours, {late} more than can be used",
    "look for a longer offer, or measure that the work takes less",
)
SETTLE_RATE = template(
    "decide.settle-rate-of-work",
    "measure the tokens per second of {steps} in a pilot on this GPU; at most {available} hours for the whole plan "
    "settle it",
    "record them as tokens_per_second, in a measurement with the scope of {card}",
)
SETTLE_RATE_OPEN = template(
    "decide.settle-rate-of-work-open",
    "measure the tokens per second of {steps} in a pilot on this GPU",
    "record them as tokens_per_second, in a measurement with the scope of {card}",
)
SETTLE_HYPOTHETICAL = template(
    "decide.settle-durations",
    "measure the steps in a pilot and write their hours with basis: measured; at most {available} settle it",
    "run a pilot of the workload of {card} and record how long it took",
)
SETTLE_DURATIONS = template(
    "decide.settle-durations-open",
    "measure the steps in a pilot and write their hours with basis: measured",
    "run a pilot of the workload of {card} and record how long it took",
)
NO_TIME = template(
    "decide.settle-no-time",
    "with the bill as planned, the cap or the calendar leaves this offer no time for the steps",
    "look for an offer that costs less, or can be used earlier or longer",
)
OF_DURATIONS = {one.code for one in (SETTLE_DURATIONS, SETTLE_HYPOTHETICAL, SETTLE_RATE, SETTLE_RATE_OPEN, NO_TIME)}
"""What settles durations, with or without the hours that they may come to."""
PROVED_HOURS = {
    (): phrase("proved hours"),
    ("documented",): phrase("documented hours"),
    ("measured",): phrase("measured hours"),
    ("documented", "measured"): phrase("measured or documented hours"),
}
"""The hours that count, by what they rest on; a lower bound alone is neither measured nor documented."""


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan comes to in a window: a failure, or what is open; neither is: it fits, as `enough` says."""

    window: Window
    failure: Message | None = None
    reasons: tuple[Message, ...] = ()
    settle: tuple[Message, ...] = ()
    enough: Message | None = None


def examine(plan: Plan, calendar: Calendar, window: Window, now: datetime.datetime, card: str) -> Examined:
    """Judge a plan in a window; `card` is the file that a command would name. A plan without steps fits no less."""
    failure = _failure(plan, calendar, window, now)
    if failure is not None:
        return Examined(window=window, failure=failure)
    reasons, settle = _open_points(plan, window, card)
    return Examined(window=window, reasons=reasons, settle=settle, enough=_enough(plan, window))


def settle_durations(plan: Plan, available: Decimal | None, card: str) -> Message:
    """The measurement that settles the durations, with the hours it may come to; None: nothing limits them.

    `available` are planned hours, contingency included: what is measured has to leave room for it.
    """
    work = [step.name for step in plan.open_steps if step.is_work]
    if available is None:
        return SETTLE_RATE_OPEN(steps=work, card=card) if work else SETTLE_DURATIONS(card=card)
    if available <= 0:
        return NO_TIME()
    measured = show_hours(plan.without_contingency(available), ROUND_FLOOR)
    if work:
        return SETTLE_RATE(steps=work, available=measured, card=card)
    return SETTLE_HYPOTHETICAL(available=measured, card=card)


def tightest_durations(steps: tuple[Message, ...]) -> tuple[Message, ...]:
    """The steps, with what settles the durations said once: cap and calendar both have to hold."""
    limits = [step for step in steps if step.code in OF_DURATIONS]
    if len(limits) < 2:
        return steps
    tightest = min(limits, key=_limit)
    return tuple(dict.fromkeys(tightest if step in limits else step for step in steps))


def show_hours(hours: Decimal, rounding: str = ROUND_HALF_EVEN) -> str:
    """Hours without needless zeros; a limit is rounded down."""
    return f"{hours.quantize(Decimal('0.01'), rounding).normalize():f}"


def _limit(step: Message) -> Decimal:
    return ZERO if step.code == NO_TIME.code else Decimal(str(step.parameters.get("available", "Infinity")))


def _failure(plan: Plan, calendar: Calendar, window: Window, now: datetime.datetime) -> Message | None:
    if calendar.deadline is not None and utc(calendar.deadline) <= utc(now):
        return DEADLINE_PASSED(deadline=calendar.deadline.isoformat())
    if window.latest is not None and window.latest <= window.earliest:
        return WINDOW_SHUT(earliest=window.earliest.isoformat(), latest=window.latest.isoformat())
    if window.most_hours is not None and plan.hours.least > window.most_hours:
        return WINDOW_SHORT(**_proved(plan), available=show_hours(window.most_hours))
    return None


def _proved(plan: Plan) -> dict[str, str]:
    """How many hours count, under the name of what they rest on."""
    bases = tuple(sorted({step.basis for step in plan.steps} - {"hypothetical"}))
    return {"needed": show_hours(plan.hours.least), "hours": PROVED_HOURS[bases]}


def _enough(plan: Plan, window: Window) -> Message:
    words = _proved(plan) | {"needed": show_hours(plan.without_contingency(plan.hours.planned))}
    has_contingency = bool(plan.contingency_percent) and plan.hours.planned > 0
    if has_contingency:
        words["planned"] = show_hours(plan.hours.planned)
    if window.certain_hours is None:
        return (WINDOW_OPEN_WITH if has_contingency else WINDOW_OPEN)(**words)
    available = show_hours(window.certain_hours)
    return (WINDOW_ENOUGH_WITH if has_contingency else WINDOW_ENOUGH)(**words, available=available)


def _open_points(plan: Plan, window: Window, card: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What keeps a window from being confirmed, and what would settle each point."""
    hours, certain = plan.hours, window.certain_hours
    if plan.open_steps:
        reasons = (*_open_hours(plan), *_late(plan, window), *plan.reasons)
        return reasons, (settle_durations(plan, certain, card),)
    if certain is not None and hours.planned > certain:
        available = show_hours(window.most_hours if window.most_hours is not None else certain)
        reason = WINDOW_TIGHT(
            planned=show_hours(hours.planned), certain=show_hours(certain, ROUND_FLOOR), available=available
        )
        return (reason, *_late(plan, window)), (reason,)
    return (), ()


def _open_hours(plan: Plan) -> Iterator[Message]:
    """Which hours nothing proves, and of which steps nothing states any."""
    unknown = [step.name for step in plan.open_steps if step.planned is None]
    guessed = {step.name: step.planned for step in plan.open_steps if step.planned is not None}
    if guessed:
        all_hours = sum((step.planned or ZERO for step in plan.steps), ZERO)
        yield HYPOTHETICAL(
            hypothetical=show_hours(sum(guessed.values(), ZERO)), planned=show_hours(all_hours), steps=list(guessed)
        )
    if unknown:
        yield HOURS_UNKNOWN(steps=unknown)


def _late(plan: Plan, window: Window) -> Iterator[Message]:
    """How much too long the planned hours are; those of other steps may come on top."""
    schedule = schedule_of(window, msgspec.structs.replace(plan.hours, is_stated=True))
    planned = show_hours(plan.hours.planned)
    if schedule.slack_hours is not None and schedule.end is not None and schedule.slack_hours < 0:
        yield ENDS_LATE(late=show_hours(-schedule.slack_hours), planned=planned, latest=schedule.end.isoformat())
    elif window.most_hours is not None and plan.hours.planned > window.most_hours:
        yield TAKES_LONGER(late=show_hours(plan.hours.planned - window.most_hours), planned=planned)
