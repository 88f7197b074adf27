"""What records say of the duration of a step: which of them count, and the spread of what they state.

Legend: w tokens of work; v tokens per second of one measured run; a step takes w / v / 3600 hours. Of several runs the
fastest gives what it takes at the least, the slowest what has to fit.
A rate holds at the dimensions it was measured at: fewer or more tokens or sequences at once are another rate.
"""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from capienza.card.model import Step
from capienza.errors import Message, template
from capienza.evidence.claims import ANY, find
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.scope import BOUNDS, FIELDS, first_gap
from capienza.evidence.standing import Standing
from capienza.plan.hours import ZERO

TOKEN_RATE = "tokens_per_second"
"""Of a measurement: tokens of all sequences together, each claim one run; its unit is tokens/s."""
DURATION = "duration_hours"
"""Of a measurement, document or plan: hours that a step takes; the basis names the step; its unit is h."""
UNITS = {TOKEN_RATE: "tokens/s", DURATION: "h"}
KINDS = {"measured": ("measurement",), "documented": ("document", "plan")}

PLACE_FIELDS = ("provider", "offer")
RUN_FIELDS = tuple(field for field in FIELDS if field not in ("driver", *PLACE_FIELDS))
SECONDS = Decimal(3600)
LONGEST_HOURS = Decimal(10**9)
"""A run so slow that the plan never ends is no rate."""
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)

RECORD_MISSING = template(
    "plan.record-missing",
    "the record {record} of step {step} is not in the evidence",
    "give its folder with --evidence, or correct calendar.steps",
)
RECORD_AMBIGUOUS = template(
    "plan.record-ambiguous",
    "the record {record} of step {step} may be any of {records}",
    "write more characters of its id in calendar.steps",
)
WRONG_KIND = template(
    "plan.record-of-another-kind",
    "record {record} is of kind {kind} by method {method}; the duration of step {step} is said to be {basis}",
    "name a measurement made by method measure, or a document or plan, as the basis says",
)
NOT_HERE = template(
    "plan.record-elsewhere",
    "record {record} speaks of {field} {stated} alone",
    "ask for a document about this offer",
)
OTHER_LOAD = template(
    "plan.record-at-another-load",
    "record {record} was made with {field} {stated}; a speed holds only at the {needed} that are needed",
    "repeat the run with {field} {needed}",
)
UNREADABLE = template(
    "plan.claim-unreadable",
    "record {record} states {quantity} as {found}; a number above zero in {unit} is accepted",
    "withdraw it and write it again",
)
NOTHING_STATED = template(
    "plan.record-without-duration",
    "record {record} states no {quantity} of step {step}",
    "repeat the run and record it, or name the record that does",
)
NO_PILOT = template(
    "plan.no-pilot",
    "no measured run in the evidence states the tokens per second of step {step}",
    "measure the tokens per second of a pilot at the required dimensions, twice or more, for {tokens} tokens of work",
)
ONE_RUN = template(
    "plan.one-run",
    "the duration of step {step} rests on one run, whose spread is not known",
    "repeat the pilot",
)


class Duration(msgspec.Struct, frozen=True, kw_only=True):
    """What the records of a step come to. `planned` None: they settle nothing, for these reasons."""

    least: Decimal = ZERO
    planned: Decimal | None = None
    records: tuple[Record, ...] = ()
    reasons: tuple[Message, ...] = ()
    notes: tuple[Message, ...] = ()


def duration_of(step: Step, standing: Standing, needs: tuple[Scope, ...]) -> Duration:
    """The duration by records of a step that names one, or that states its work.

    The records have to cover every GPU that the seller's name may mean: one of `needs` each.
    """
    quantity = DURATION if step.work_tokens is None else TOKEN_RATE
    candidates, reasons = _named(step, standing) if step.record else _about(quantity, standing)
    if step.record and candidates and quantity == DURATION:
        candidates += _of_step(step, standing, candidates)
    proved: list[Decimal] = []
    doubted: list[Decimal] = []
    records: dict[str, Record] = {}
    is_single = False
    for need in needs:
        before, runs = len(proved), 0
        for record in candidates:
            problem = standing.ended.get(record.id) or _problem(record, step, need)
            weak = standing.weak.get(record.id, ())
            reasons += weak if problem is None else (problem,)
            hours, unread = _stated(record, quantity, step) if problem is None else ([], ())
            reasons += unread
            # A run of a plan that lacks one proves nothing, and its time is not forgotten.
            (doubted if weak else proved).extend(hours)
            if hours and not weak:
                records[record.id] = record
                runs += len(hours)
        if len(proved) == before:
            return Duration(reasons=tuple(dict.fromkeys(reasons)) or _nothing(step, quantity, candidates))
        is_single |= runs == 1
    if quantity == TOKEN_RATE and is_single:
        reasons.append(ONE_RUN(step=step.name))
    return Duration(
        least=min(proved),
        planned=max(*proved, *doubted, ZERO),
        records=tuple(records.values()),
        notes=tuple(dict.fromkeys(reasons)),
    )


def _stated(record: Record, quantity: str, step: Step) -> tuple[list[Decimal], list[Message]]:
    """The hours that a record states for the step, and what cannot be read."""
    hours: list[Decimal] = []
    unread: list[Message] = []
    for claim in find(record, quantity):
        is_named = step.record is not None and record.id.startswith(step.record)
        if quantity == TOKEN_RATE or claim.basis == step.name or (is_named and claim.basis is None):
            value = _hours(claim, step)
            if value is None:
                unread.append(_unreadable(record, claim))
            else:
                hours.append(value)
    return hours, unread


def _named(step: Step, standing: Standing) -> tuple[list[Record], list[Message]]:
    """The record that the step names, or why there is none."""
    beginning = step.record or ""
    found = [record for record in standing.counting if record.id.startswith(beginning)]
    aside = [reason for record, reason in standing.set_aside if record.id.startswith(beginning)]
    if len(found) == 1:
        return found, []
    if found:
        ids = [record.id[:16] for record in found]
        return [], [RECORD_AMBIGUOUS(record=beginning[:12], step=step.name, records=ids)]
    return [], aside or [RECORD_MISSING(record=beginning[:12], step=step.name)]


def _of_step(step: Step, standing: Standing, named: list[Record]) -> list[Record]:
    """Further records of the same kind that state the hours of this very step: the named one was made on one GPU."""
    kinds = KINDS.get(step.basis, ())
    return [
        record
        for record in standing.counting
        if record.kind in kinds
        and (step.basis == "documented" or record.method == "measure")
        and any(claim.quantity == DURATION and claim.basis == step.name for claim in record.claims)
        and all(record.id != other.id for other in named)
    ]


def _about(quantity: str, standing: Standing) -> tuple[list[Record], list[Message]]:
    """The measurements that state a quantity, and why some of them do not count at all."""

    def states(record: Record) -> bool:
        return record.kind == "measurement" and any(claim.quantity == quantity for claim in record.claims)

    return (
        [record for record in standing.counting if states(record)],
        [reason for record, reason in standing.set_aside if states(record)],
    )


def _problem(record: Record, step: Step, need: Scope) -> Message | None:
    """Why a record does not speak of this step on this GPU."""
    basis = step.basis if step.work_tokens is None else "measured"
    if record.kind not in KINDS[basis] or (basis == "measured" and record.method != "measure"):
        return WRONG_KIND(record=record.id[:12], kind=record.kind, method=record.method, step=step.name, basis=basis)
    return _not_covered(record, need) if basis == "documented" else _not_measured(record, need)


def _not_covered(record: Record, need: Scope) -> Message | None:
    """Why a document does not speak of what is needed: it counts unless what it states is something else."""
    for field in PLACE_FIELDS:
        stated = getattr(record.scope, field)
        if stated not in (None, ANY, getattr(need, field)):
            return NOT_HERE(record=record.id[:12], field=field, stated=stated)
    stated_fields = [field for field in RUN_FIELDS if getattr(record.scope, field) is not None]
    return first_gap(record, need, stated_fields)


def _not_measured(record: Record, need: Scope) -> Message | None:
    """Why a measurement was not made on what is needed, at the dimensions that are needed."""
    gap = first_gap(record, need, RUN_FIELDS)
    if gap is not None:
        return gap
    for field in BOUNDS:
        stated, needed = getattr(record.scope, field), getattr(need, field)
        if needed is not None and stated != needed:
            return OTHER_LOAD(record=record.id[:12], field=field, stated=stated, needed=needed)
    return None


def _hours(claim: Claim, step: Step) -> Decimal | None:
    """One claim in hours; None when it cannot be read."""
    text = str(claim.value)
    if claim.unit != UNITS[claim.quantity] or not _NUMBER.fullmatch(text) or not (value := Decimal(text)):
        return None
    hours = value if step.work_tokens is None else step.work_tokens / value / SECONDS
    return hours if hours <= LONGEST_HOURS else None


def _unreadable(record: Record, claim: Claim) -> Message:
    found = f"{claim.value} {claim.unit or ''}".strip()[:64]
    return UNREADABLE(record=record.id[:12], quantity=claim.quantity, found=found, unit=UNITS[claim.quantity])


def _nothing(step: Step, quantity: str, candidates: list[Record]) -> tuple[Message, ...]:
    if candidates:
        return tuple(NOTHING_STATED(record=record.id[:12], quantity=quantity, step=step.name) for record in candidates)
    return (NO_PILOT(step=step.name, tokens=step.work_tokens),)
