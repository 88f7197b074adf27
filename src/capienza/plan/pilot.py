"""What records say of the duration of a step: which of them count, and the spread of what they state.

Legend: w tokens of work; v tokens per second of one measured run; a step takes w / v / 3600 hours. Of several runs the
fastest gives what it takes at the least, the slowest what has to fit.
A rate holds at the dimensions it was measured at: fewer or more tokens or sequences at once are another rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import msgspec

from capienza.card.model import Step
from capienza.errors import Message, template
from capienza.evidence.claims import ANY, find
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.scope import BOUNDS, FIELDS, first_gap
from capienza.evidence.standing import Standing

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
    "measure a pilot of {tokens} tokens per second at the required dimensions, twice or more",
)
ONE_RUN = template(
    "plan.one-run",
    "the duration of step {step} rests on one run, whose spread is not known",
    "repeat the pilot",
)


class Duration(msgspec.Struct, frozen=True, kw_only=True):
    """What the records of a step come to. `planned` None: they settle nothing, for these reasons."""

    least: Decimal = Decimal(0)
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
    hours: list[Decimal] = []
    records: dict[str, Record] = {}
    fewest = 0
    for need in needs:
        found = []
        for record in candidates:
            problems = tuple(_problems(record, step, need, standing))
            reasons += problems
            for claim in () if problems else find(record, quantity):
                if quantity == DURATION and claim.basis not in (None, step.name):
                    continue
                value = _hours(claim, step)
                if value is None:
                    reasons.append(_unreadable(record, claim))
                else:
                    found.append(value)
                    records[record.id] = record
        if not found:
            return Duration(reasons=tuple(dict.fromkeys(reasons)) or _nothing(step, quantity, candidates))
        hours += found
        fewest = min(fewest or len(found), len(found))
    if quantity == TOKEN_RATE and fewest == 1:
        reasons.append(ONE_RUN(step=step.name))
    return Duration(
        least=min(hours), planned=max(hours), records=tuple(records.values()), notes=tuple(dict.fromkeys(reasons))
    )


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


def _about(quantity: str, standing: Standing) -> tuple[list[Record], list[Message]]:
    """The measurements that state a quantity, and why some of them do not count at all."""

    def states(record: Record) -> bool:
        return record.kind == "measurement" and any(claim.quantity == quantity for claim in record.claims)

    return (
        [record for record in standing.counting if states(record)],
        [reason for record, reason in standing.set_aside if states(record)],
    )


def _problems(record: Record, step: Step, need: Scope, standing: Standing) -> Iterator[Message]:
    """Why a record says nothing for certain of this step on this GPU."""
    basis = step.basis if step.work_tokens is None else "measured"
    if record.kind not in KINDS[basis] or (basis == "measured" and record.method != "measure"):
        yield WRONG_KIND(record=record.id[:12], kind=record.kind, method=record.method, step=step.name, basis=basis)
        return
    yield from standing.weak.get(record.id, ())
    scope = record.scope
    if basis == "documented":
        for field in PLACE_FIELDS:
            stated = getattr(scope, field)
            if stated not in (None, ANY, getattr(need, field)):
                yield NOT_HERE(record=record.id[:12], field=field, stated=stated)
        stated_fields = [field for field in FIELDS if getattr(scope, field) is not None]
        gap = first_gap(record, need, stated_fields)
    else:
        gap = first_gap(record, need, RUN_FIELDS)
    if gap is not None:
        yield gap
        return
    for field in BOUNDS:
        stated, needed = getattr(scope, field), getattr(need, field)
        if basis == "measured" and needed is not None and stated != needed:
            yield OTHER_LOAD(record=record.id[:12], field=field, stated=stated, needed=needed)


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
    return (NO_PILOT(step=step.name, tokens=str(step.work_tokens)),)
