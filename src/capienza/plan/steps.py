"""The steps of a card's calendar with their hours and what these rest on: records, the card's own word, or nothing.

Legend: least hours that are proved, planned hours that have to fit, both of the step; contingency c in percent is added
to the planned hours of the whole plan, (1 + c / 100) x their sum, and to no proved ones. A physical lower bound raises
what a step takes at the least and confirms nothing; a measurement below it shows the bound to be wrong.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from capienza.card.model import Basis, Calendar, LowerBound, Step
from capienza.errors import Message, template
from capienza.evidence.record import Record, Scope
from capienza.evidence.standing import Standing
from capienza.plan.hours import ZERO, Hours
from capienza.plan.pilot import Duration, duration_of

OWN_WORD = template(
    "plan.own-word",
    "the duration of step {step} is {basis} by the card's own word: no record stands beside it",
    "record the run, and write its id as record: beside the step",
)
LONGER_THAN_CARD = template(
    "plan.longer-than-the-card-says",
    "the records of step {step} say up to {found} hours, the card {hours}: the larger counts",
    "correct hours in calendar.steps",
)
BOUND_BROKEN = template(
    "plan.bound-broken",
    "step {step} was measured at {found} hours, below its lower bound of {bound}: the bound does not count",
    "correct at_least in calendar.steps",
)
BOUND_COUNTS = template(
    "plan.bound-counts",
    "step {step} cannot take less than {bound} hours: {reason}",
)
NO_HOURS = template(
    "plan.no-hours",
    "nothing says how many hours step {step} takes",
    "measure a pilot, or write hours beside it: they are hypothetical until then",
)
NONE_RECORDED = Standing(counting=(), weak={}, set_aside=())


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step as it counts here. `planned` None: not known. `basis` is what it comes to, whatever the card says.

    `is_work`: the card states tokens of work, and a measured rate would tell its hours.

    `reasons` say why a duration that ought to be proved is not; `notes` what else a reader has to know.
    """

    name: str
    least: Decimal
    planned: Decimal | None
    basis: Basis
    records: tuple[Record, ...] = ()
    is_own_word: bool = False
    is_work: bool = False
    reasons: tuple[Message, ...] = ()
    notes: tuple[Message, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps in their order, and the hours of all of them. `contingency_percent` None: the card states none."""

    steps: tuple[PlannedStep, ...] = ()
    contingency_percent: Decimal | None = None
    hours: Hours = Hours()

    @property
    def records(self) -> tuple[Record, ...]:
        """The records that durations rest on, each once."""
        return tuple({record.id: record for step in self.steps for record in step.records}.values())

    @property
    def reasons(self) -> tuple[Message, ...]:
        """Why durations that ought to be proved are not."""
        return tuple(reason for step in self.steps for reason in step.reasons)

    @property
    def notes(self) -> tuple[Message, ...]:
        """What a reader has to know of durations that count."""
        return tuple(note for step in self.steps for note in step.notes)

    @property
    def open_steps(self) -> tuple[PlannedStep, ...]:
        """The steps that nothing proves the duration of."""
        return tuple(step for step in self.steps if step.basis == "hypothetical")

    def hours_for(self, measured: Decimal) -> Hours:
        """The hours of this plan if all its steps together were measured to take these."""
        return Hours(
            least=measured,
            planned=self.with_contingency(measured),
            is_stated=True,
            is_documented=True,
            daily=self.hours.daily,
        )

    def with_contingency(self, hours: Decimal) -> Decimal:
        """Hours of steps as they are planned."""
        return hours * (100 + self.contingency_percent) / 100 if self.contingency_percent else hours

    def without_contingency(self, hours: Decimal) -> Decimal:
        """Hours of steps that are planned as these."""
        return hours * 100 / (100 + self.contingency_percent) if self.contingency_percent else hours


def plan_of(
    calendar: Calendar | str | None, standing: Standing = NONE_RECORDED, needs: tuple[Scope, ...] = (Scope(),)
) -> Plan:
    """The plan of a card's calendar on the GPUs of `needs`, by the records that count."""
    if not isinstance(calendar, Calendar):
        return Plan()
    steps = tuple(_step(step, standing, needs) for step in calendar.steps)
    plan = Plan(steps=steps, contingency_percent=calendar.contingency_percent)
    hours = Hours(
        least=sum((step.least for step in steps), ZERO),
        planned=plan.with_contingency(sum((step.planned or ZERO for step in steps), ZERO)),
        is_stated=bool(steps) and all(step.planned is not None for step in steps),
        is_documented=bool(steps) and not plan.open_steps,
        daily=calendar.daily_hours,
    )
    return msgspec.structs.replace(plan, hours=hours)


def _step(step: Step, standing: Standing, needs: tuple[Scope, ...]) -> PlannedStep:
    if step.record is None and step.work_tokens is None:
        if step.basis == "hypothetical":
            return _hypothetical(step, ())
        hours = step.hours or ZERO
        duration = Duration(least=hours, planned=hours, notes=(OWN_WORD(step=step.name, basis=step.basis),))
        return _proved(step, step.basis, duration, is_own_word=True)
    duration = duration_of(step, standing, needs)
    if duration.planned is None:
        return _hypothetical(step, duration.reasons)
    return _proved(step, step.basis if step.work_tokens is None else "measured", duration)


def _hypothetical(step: Step, reasons: tuple[Message, ...]) -> PlannedStep:
    bound = step.at_least
    planned = max(step.hours, bound.hours) if step.hours is not None and bound is not None else step.hours
    if planned is None:
        reasons = (*reasons, NO_HOURS(step=step.name))
    return PlannedStep(
        name=step.name,
        least=bound.hours if bound else ZERO,
        planned=planned,
        basis="hypothetical",
        is_work=step.work_tokens is not None,
        reasons=reasons,
        notes=(_bound_note(step, bound),) if bound else (),
    )


def _proved(step: Step, basis: Basis, duration: Duration, *, is_own_word: bool = False) -> PlannedStep:
    slowest = duration.planned or ZERO
    notes = duration.notes
    # Beside work, hours are the guess that the pilot replaces.
    stated = step.hours if step.work_tokens is None else None
    planned = max(slowest, stated or ZERO)
    if stated is not None and slowest > stated:
        notes = (*notes, LONGER_THAN_CARD(step=step.name, found=show(slowest), hours=show(stated)))
    least, bound = duration.least, step.at_least
    if bound is not None and bound.hours > least:
        is_measured = basis == "measured" and not is_own_word
        found, of_card = show(duration.least), show(bound.hours)
        if is_measured:
            notes = (*notes, BOUND_BROKEN(step=step.name, found=found, bound=of_card))
        else:
            least, planned = bound.hours, max(planned, bound.hours)
            notes = (*notes, _bound_note(step, bound))
    return PlannedStep(
        name=step.name,
        least=least,
        planned=planned,
        basis=basis,
        records=duration.records,
        is_own_word=is_own_word,
        notes=notes,
    )


def _bound_note(step: Step, bound: LowerBound) -> Message:
    return BOUND_COUNTS(step=step.name, bound=show(bound.hours), reason=bound.reason)


def show(hours: Decimal) -> str:
    """Hours with at most two decimals and no needless zeros."""
    return f"{hours.quantize(Decimal('0.01')).normalize():f}"
