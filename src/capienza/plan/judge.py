"""Does a plan fit its window? What fails, what is open, and what would settle it.

No duration is presumed: hypothetical hours neither confirm nor exclude. Proved hours that exceed the most there can be
fail; planned hours within what is certain are enough; what lies between is open.
"""

from __future__ import annotations

import datetime
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

import msgspec

from capienza.card.model import Calendar
from capienza.errors import Message, phrase, template
from capienza.plan.hours import ZERO
from capienza.plan.steps import Plan
from capienza.plan.window import Window, utc

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
    if available is None:
        return SETTLE_DURATIONS(card=card)
    if available <= 0:
        return NO_TIME()
    measured = show_hours(plan.without_contingency(available), ROUND_FLOOR)
    return SETTLE_HYPOTHETICAL(available=measured, card=card)


def tightest_durations(steps: tuple[Message, ...]) -> tuple[Message, ...]:
    """The steps, with what settles the durations said once: cap and calendar both have to hold."""
    limits = [step for step in steps if step.code in (SETTLE_DURATIONS.code, SETTLE_HYPOTHETICAL.code, NO_TIME.code)]
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
    words = _proved(plan) | {"needed": show_hours(plan.hours.planned)}
    if window.certain_hours is None:
        return WINDOW_OPEN(**words)
    return WINDOW_ENOUGH(**words, available=show_hours(window.certain_hours))


def _open_points(plan: Plan, window: Window, card: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What keeps a window from being confirmed, and what would settle each point."""
    hours, certain = plan.hours, window.certain_hours
    if plan.open_steps:
        open_hours = sum((step.planned or ZERO for step in plan.open_steps), ZERO)
        all_hours = sum((step.planned or ZERO for step in plan.steps), ZERO)
        reason = HYPOTHETICAL(
            hypothetical=show_hours(open_hours),
            planned=show_hours(all_hours),
            steps=[step.name for step in plan.open_steps],
        )
        return (reason, *plan.reasons), (settle_durations(plan, certain, card),)
    if certain is not None and hours.planned > certain:
        available = show_hours(window.most_hours if window.most_hours is not None else certain)
        reason = WINDOW_TIGHT(
            planned=show_hours(hours.planned), certain=show_hours(certain, ROUND_FLOOR), available=available
        )
        return (reason,), (reason,)
    return (), ()
