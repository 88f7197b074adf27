"""Every record of a folder with its standing, and what refers to it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Literal

import msgspec

from capienza.errors import InputError, Message, template
from capienza.evidence.record import Record
from capienza.evidence.standing import EXPIRED, FROM_THE_FUTURE, record_references, standing
from capienza.evidence.waivers import failures_met

State = Literal["counts", "weak", "void", "expired", "future", "superseded", "invalidated", "unsigned"]
NO_SUCH_RECORD = template(
    "evidence.no-such-record", "no record has an id that begins with {found}", "capienza evidence list shows the ids"
)
SEVERAL = template(
    "evidence.several-records", "{found} begins the ids of {count} records: {ids}", "give more digits of the one meant"
)
SHOWN_IDS = 5
WITHDRAWN_AS: dict[str, State] = {"supersedes": "superseded", "invalidates": "invalidated"}


class Surveyed(msgspec.Struct, frozen=True):
    """A record, whether it counts at that moment, and why it does not or not fully."""

    record: Record
    state: State
    reasons: tuple[Message, ...] = ()


def survey(records: Iterable[Record], now: datetime.datetime) -> tuple[Surveyed, ...]:
    """The standing of each record at `now`, sorted by id."""
    known = {record.id: record for record in records}
    found = standing(known.values(), now)
    rows = [Surveyed(record, _aside(record, reason, known), (reason,)) for record, reason in found.set_aside]
    for record in found.counting:
        doubts = found.weak.get(record.id, ())
        void = failures_met(record, found.counting) if record.kind == "waiver" else ()
        ended = found.ended.get(record.id)
        state: State = "void" if void else _aside(record, ended, known) if ended else "weak" if doubts else "counts"
        rows.append(Surveyed(record, state, (*void, *doubts)))
    return tuple(sorted(rows, key=lambda row: row.record.id))


def referring(record: Record, records: Iterable[Record]) -> tuple[Record, ...]:
    """The records that name this one among their inputs."""
    return tuple(other for other in records if record.id in record_references(other))


def find_record(prefix: str, records: Iterable[Record]) -> Record:
    """The one record whose id begins so. Raises `InputError` when there is none, or more than one."""
    found = [record for record in records if record.id.startswith(prefix.lower())]
    if not found:
        raise InputError(NO_SUCH_RECORD(found=prefix[:64]))
    if len(found) > 1:
        ids = [record.id[: len(prefix) + 6] for record in found[:SHOWN_IDS]]
        raise InputError(SEVERAL(found=prefix[:64], count=len(found), ids=ids))
    return found[0]


def _aside(record: Record, reason: Message, known: dict[str, Record]) -> State:
    """The word for a record that does not count, from the reason that says why."""
    if reason.code == EXPIRED.code:
        return "expired"
    if reason.code == FROM_THE_FUTURE.code:
        return "future"
    by = reason.parameters.get("by")
    if by is None:
        return "unsigned"
    kinds = {other.kind for other in known.values() if record.id in other.inputs and other.id.startswith(str(by))}
    return WITHDRAWN_AS.get(kinds.pop(), "invalidated") if kinds else "invalidated"
