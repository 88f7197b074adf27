"""Which records count now: not expired, not withdrawn, and not a part of a plan that lacks a run.

Negative evidence cannot be protected by logic: deleting a failed run would help the offer. It is protected by
completeness. A plan states its number of runs beforehand; while a run is missing, or a record that another one
refers to, what is left may establish a failure but supports nothing.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping

import msgspec

from capienza.errors import Message, template
from capienza.evidence.claims import PLANNED_RUNS, author, has_reason, whole
from capienza.evidence.record import Record

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


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a decision at one moment, each once, sorted by id.

    `counting` may speak. `weak` gives, for some of them, why they cannot support. `set_aside` do not speak at
    all, each with the reason.
    """

    counting: tuple[Record, ...]
    weak: Mapping[str, tuple[Message, ...]]
    set_aside: tuple[tuple[Record, Message], ...]


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
    runs = _runs(ordered)
    counting, set_aside, weak = [], [], {}
    for record in ordered:
        reason = undated[record.id] or withdrawn.get(record.id)
        if reason is None and record.kind in WITHDRAWING and not _signed(record):
            reason = WITHDRAWAL_UNSIGNED(record=record.id[:12])
        if reason is not None:
            set_aside.append((record, reason))
            continue
        counting.append(record)
        doubts = _incomplete(record, known, runs)
        if doubts:
            weak[record.id] = doubts
    return Standing(counting=tuple(counting), weak=weak, set_aside=tuple(set_aside))


def record_references(record: Record) -> tuple[str, ...]:
    """The ids of records among its inputs."""
    return tuple(identity for identity in record.inputs if _RECORD_ID.fullmatch(identity))


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


def _runs(records: list[Record]) -> dict[tuple[str, str], int]:
    """How many records of each kind refer to each record of the set."""
    count: dict[tuple[str, str], int] = {}
    for record in records:
        for identity in set(record.inputs):
            count[record.kind, identity] = count.get((record.kind, identity), 0) + 1
    return count


def _incomplete(
    record: Record, known: Mapping[str, Record], runs: Mapping[tuple[str, str], int]
) -> tuple[Message, ...]:
    doubts = []
    for identity in record_references(record):
        other = known.get(identity)
        if other is None:
            doubts.append(REFERENCE_MISSING(record=record.id[:12], missing=identity[:12]))
        elif other.kind == "plan":
            planned, present = whole(other, PLANNED_RUNS), runs.get((record.kind, identity), 0)
            if planned is not None and present < planned:
                doubts.append(
                    PLAN_INCOMPLETE(record=record.id[:12], plan=identity[:12], present=present, planned=planned)
                )
    return tuple(doubts)
