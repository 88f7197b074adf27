"""Which records count now: not expired, not withdrawn, and not a part of a plan that lacks a run.

Negative evidence cannot be protected by logic: deleting a failed run would help the offer. It is protected by
completeness. A plan states its number of runs beforehand; while a run is missing, or a record that another one
refers to, what is left may establish a failure but supports nothing.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from capienza.errors import Message, template
from capienza.evidence.claims import (
    COMPATIBILITY,
    DROPPED,
    OUTCOME,
    PEAK,
    PLANNED_RUNS,
    TRUNCATED,
    author,
    find,
    has_reason,
    wholes,
)
from capienza.evidence.record import Record, Scope

_RECORD_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)
WITHDRAWING = ("supersedes", "invalidates")

EXPIRED = template(
    "evidence.expired",
    "record {record} expired on {expires}",
    "add a newer record",
)
FROM_THE_FUTURE = template(
    "evidence.from-the-future",
    "record {record} is dated {date}, after the moment of this decision",
    "check the clock of the machine that wrote it",
)
WITHDRAWN = template(
    "evidence.withdrawn",
    "record {record} was withdrawn by record {by}",
    "see record {by}",
)
WITHDRAWAL_UNSIGNED = template(
    "evidence.withdrawal-unsigned",
    "record {record} withdraws another one without an author or a reason; it does not count",
    "write producer.author and a note with the reason",
)
REFERENCE_MISSING = template(
    "evidence.reference-missing",
    "record {record} refers to record {missing}, which is not in the set",
    "add record {missing} to the folder",
)
PLAN_INCOMPLETE = template(
    "evidence.plan-incomplete",
    "record {record} belongs to plan {plan}: {present} of {planned} runs are in the set",
    "add the missing runs, failed ones included",
)
PLAN_LACKS_RUNS = template(
    "evidence.plan-lacks-runs",
    "plan {plan}: {present} of {planned} runs are in the set, and one that is missing may have failed",
    "add the missing runs, failed ones included, or withdraw the plan by a record with author and reason",
)

_OF_A_RUN = (OUTCOME, TRUNCATED, DROPPED, PEAK, COMPATIBILITY)
PLANNED_KINDS = ("measurement", "quality_result")
IDENTITY = ("model", "revision", "task", "weight_format", "engine", "engine_version", "gpu", "gpus", "configuration")
"""What two runs have to share to be runs of the same plan."""


class Unfinished(msgspec.Struct, frozen=True):
    """A run is missing that a plan or a citation tells of: of `kind` (None: of any), about what the scope states."""

    scope: Scope
    kind: str | None
    reason: Message


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a decision at one moment, each once, sorted by id.

    `counting` may speak. `weak` gives, for some of them and of those withdrawn, why they cannot support. `set_aside`
    do not speak at all, each with the reason. `ended` are runs and results out of their dates: they support nothing,
    and what they showed to fail stays shown until it is withdrawn. `unfinished` says of what a run is missing, which
    may be one that failed.
    """

    counting: tuple[Record, ...]
    weak: Mapping[str, tuple[Message, ...]]
    set_aside: tuple[tuple[Record, Message], ...]
    unfinished: tuple[Unfinished, ...] = ()
    ended: Mapping[str, Message] = {}

    @property
    def withdrawn(self) -> tuple[tuple[Record, Message], ...]:
        """Those set aside because another record withdraws them."""
        return tuple((record, reason) for record, reason in self.set_aside if reason.code == WITHDRAWN.code)


def standing(records: Iterable[Record], now: datetime.datetime) -> Standing:
    """Sort records into those that count at `now` and those that do not.

    Raises `ValueError` for a record without an id: seal it first.
    """
    known = {record.id: record for record in records}
    if "" in known:
        message = "a record without an id cannot be cited; seal it first"
        raise ValueError(message)
    ordered = [known[identity] for identity in sorted(known)]
    undated = {record.id: _out_of_date(record, now) for record in ordered}
    withdrawn = _withdrawn([record for record in ordered if undated[record.id] is None])
    plans = [record for record in ordered if record.kind == "plan"]
    counting, set_aside, weak = [], [], {}
    ended = {record.id: end for record in ordered if (end := undated[record.id]) is not None and _shows(record)}
    for record in ordered:
        outdated = None if record.id in ended else undated[record.id]
        reason = outdated or withdrawn.get(record.id)
        if reason is None and record.kind in WITHDRAWING and not _signed(record):
            reason = WITHDRAWAL_UNSIGNED(record=record.id[:12])
        if reason is not None:
            set_aside.append((record, reason))
        else:
            counting.append(record)
        if reason is None or reason.code == WITHDRAWN.code:
            doubts = _incomplete(record, known, plans)
            if record.id in ended:
                doubts = (ended[record.id], *doubts)
            if doubts:
                weak[record.id] = doubts
    return Standing(
        counting=tuple(counting),
        weak=weak,
        ended=ended,
        set_aside=tuple(set_aside),
        unfinished=tuple(_unfinished(ordered, known, withdrawn)),
    )


def record_references(record: Record) -> tuple[str, ...]:
    """The ids of records among its inputs."""
    return tuple(identity for identity in record.inputs if is_record_id(identity))


def is_record_id(text: str) -> bool:
    """Is the text the id of a record: 64 hexadecimal digits, in small letters?"""
    return _RECORD_ID.fullmatch(text) is not None


def _shows(record: Record) -> bool:
    """Is it a run or a result, which may have failed? A property that was read once is as old as its record."""
    return record.kind == "quality_result" or (
        record.kind == "measurement" and any(find(record, quantity) for quantity in _OF_A_RUN)
    )


def _out_of_date(record: Record, now: datetime.datetime) -> Message | None:
    if record.expires is not None and record.expires <= now:
        return EXPIRED(record=record.id[:12], expires=record.expires.isoformat())
    if record.date > now:
        return FROM_THE_FUTURE(record=record.id[:12], date=record.date.isoformat())
    return None


def _signed(record: Record) -> bool:
    return bool(author(record)) and has_reason(record)


def _withdrawn(records: list[Record]) -> dict[str, Message]:
    """Targets of withdrawals that stand. A withdrawal may be withdrawn in turn, so the newest link is settled first.

    An id is a digest of what it refers to, so links cannot form a ring; one made by hand withdraws nothing.
    """
    waiting = {record.id: record for record in records if record.kind in WITHDRAWING and _signed(record)}
    withdrawn: dict[str, Message] = {}
    while waiting:
        targets = {identity for record in waiting.values() for identity in record.inputs}
        settled = [record for identity, record in waiting.items() if identity not in targets]
        if not settled:
            return withdrawn
        for record in settled:
            del waiting[record.id]
            if record.id in withdrawn:
                continue
            for identity in record_references(record):
                withdrawn.setdefault(identity, WITHDRAWN(record=identity[:12], by=record.id[:12]))
    return withdrawn


def _planned(plan: Record) -> tuple[int, str | None] | None:
    """How many runs a plan announces, and of which kind where its claim says so as its basis."""
    numbers = wholes(plan, PLANNED_RUNS) if plan.kind == "plan" else ()
    if not numbers:
        return None
    (basis, *others) = {claim.basis for claim in find(plan, PLANNED_RUNS)}
    return max(numbers), basis if basis in PLANNED_KINDS and not others else None


def _is_bound(record: Record, plan: Record) -> bool:
    """Is the record one of the runs that the plan announced? It cites it, or falls under the scope that it states.

    What is older than the plan was not announced by it, whatever it cites.
    """
    if record.kind not in PLANNED_KINDS or record.date < plan.date:
        return False
    announced = _planned(plan)
    if announced is not None and announced[1] not in (None, record.kind):
        return False
    stated = {field: getattr(plan.scope, field) for field in IDENTITY if getattr(plan.scope, field) is not None}
    covers = bool(stated) and all(getattr(record.scope, field) == value for field, value in stated.items())
    return plan.id in record.inputs or covers


def _unfinished(
    ordered: list[Record], known: Mapping[str, Record], withdrawn: Mapping[str, Message]
) -> Iterator[Unfinished]:
    """What announces or cites a record that is not there. A plan that was withdrawn announces nothing.

    A plan without any run holds for all that its scope states; one with runs for what those are about.
    """
    for record in ordered:
        announced = _planned(record)
        if announced is not None and record.id not in withdrawn:
            planned, kind = announced
            runs = [run for run in ordered if _is_bound(run, record)]
            groups = {(run.kind, *(getattr(run.scope, field) for field in IDENTITY)): run for run in runs}
            if not groups:
                yield Unfinished(record.scope, kind, _lacks_runs(record, 0, planned))
            for run in groups.values():
                present = _present(run, record, runs)
                if present < planned:
                    yield Unfinished(run.scope, run.kind, _lacks_runs(record, present, planned))
        elif record.kind in PLANNED_KINDS:
            for missing in record_references(record):
                if missing not in known:
                    reason = REFERENCE_MISSING(record=record.id[:12], missing=missing[:12])
                    yield Unfinished(record.scope, record.kind, reason)


def _lacks_runs(plan: Record, present: int, planned: int) -> Message:
    return PLAN_LACKS_RUNS(plan=plan.id[:12], present=present, planned=planned)


def _present(record: Record, plan: Record, records: Iterable[Record]) -> int:
    """How many of the announced runs are there: those of the same kind and about the same thing as this one."""
    wanted = [getattr(record.scope, field) for field in IDENTITY]
    return sum(
        other.kind == record.kind
        and _is_bound(other, plan)
        and [getattr(other.scope, field) for field in IDENTITY] == wanted
        for other in records
    )


def _incomplete(record: Record, known: Mapping[str, Record], plans: Iterable[Record]) -> tuple[Message, ...]:
    doubts = [
        REFERENCE_MISSING(record=record.id[:12], missing=identity[:12])
        for identity in record_references(record)
        if identity not in known
    ]
    # A decision names every record that it read; that makes it no run of a plan among them.
    for plan in plans if record.kind != "decision" else ():
        announced = _planned(plan)
        if announced is None or not (plan.id in record.inputs or _is_bound(record, plan)):
            continue
        planned = announced[0]
        present = _present(record, plan, known.values())
        if present < planned:
            doubts.append(PLAN_INCOMPLETE(record=record.id[:12], plan=plan.id[:12], present=present, planned=planned))
    return tuple(doubts)
