"""`evidence`: add, list, show, verify and export the records of a campaign, which are the files of a folder."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from capienza.api.rechecking import recheck
from capienza.card.load import load_card
from capienza.errors import CapienzaError, Message
from capienza.evidence.crate import crate_files
from capienza.evidence.export import write_crate
from capienza.evidence.folder import read_folder
from capienza.evidence.record import Record
from capienza.evidence.store import read_document, root, write_document, write_record
from capienza.evidence.survey import Surveyed, find_record, referring, survey
from capienza.evidence.verify import check_folder
from capienza.records.load import load_record, record_from
from capienza.records.remarks import remarks


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is now in the folder; `is_new` False: it was there already, and nothing changed."""

    record: Record
    path: Path
    is_new: bool
    notes: tuple[Message, ...]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a folder with their standing at `now`, and what was not read."""

    rows: tuple[Surveyed, ...]
    now: datetime.datetime
    findings: tuple[Message, ...]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One record with its standing, and the records that name it."""

    row: Surveyed
    referring: tuple[Record, ...]
    path: Path


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that was checked: how many records verify, the root of their set, and everything that does not.

    `rechecked` are the decisions that came out again, `not_rechecked` says of the others why not.
    """

    count: int
    root: str
    problems: tuple[CapienzaError, ...]
    findings: tuple[Message, ...]
    rechecked: tuple[str, ...]
    not_rechecked: tuple[Message, ...]


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A crate that was written."""

    folder: Path
    count: int
    root: str


def evidence_add(
    folder: str | Path, given: str | Path | Mapping[str, Any], now: datetime.datetime | None = None
) -> Added:
    """Seal what a person gives and write it into the folder: a file, or the keys of the form as texts.

    Raises `InputErrors` with every problem of a form, `UnreachableError` when a file is not there or the folder cannot
    be written, `VerificationError` for a record made elsewhere that does not match its digest.
    """
    target = Path(folder)
    known = read_folder(target) if target.exists() else ()
    record, document = (record_from(given, known), None) if isinstance(given, Mapping) else _loaded(Path(given), known)
    is_new = all(other.id != record.id for other in known)
    path = write_document(document, target) if document else write_record(record, target)
    return Added(record=record, path=path, is_new=is_new, notes=remarks(record, known, _moment(now)))


def evidence_list(folder: str | Path, now: datetime.datetime | None = None) -> Listed:
    """Every record of a folder with its standing, the newest first.

    Raises what `read_folder` raises at the first file that is no record.
    """
    findings: list[Message] = []
    moment = _moment(now)
    rows = sorted(survey(read_folder(Path(folder), findings), moment), key=lambda row: row.record.date, reverse=True)
    return Listed(rows=tuple(rows), now=moment, findings=tuple(findings))


def evidence_show(folder: str | Path, prefix: str, now: datetime.datetime | None = None) -> Shown:
    """One record by its id or the first digits of it. Raises `InputError` when none or several begin so."""
    records = read_folder(Path(folder))
    record = find_record(prefix, records)
    row = next(row for row in survey(records, _moment(now)) if row.record.id == record.id)
    return Shown(row=row, referring=referring(record, records), path=Path(folder) / f"{record.id}.json")


def evidence_verify(
    folder: str | Path, card: str | Path | None = None, offers: Sequence[str | Path] | None = None
) -> Verified:
    """Check every record of a folder; with a card and its offers, decide again what was decided on them.

    What does not verify is in `problems`, not raised. Raises `UnreachableError` when there is no such folder.
    """
    checked = check_folder(Path(folder))
    read_card = load_card(card) if card is not None else None
    problems, again, not_again = list(checked.problems), list[str](), list[Message]()
    for record in checked.records:
        if record.kind == "decision":
            outcome = recheck(record, checked.records, read_card, offers, Path(folder))
            if outcome is None:
                again.append(record.id)
            elif isinstance(outcome, CapienzaError):
                problems.append(outcome)
            else:
                not_again.append(outcome)
    return Verified(
        count=len(checked.records),
        root=root(record.id for record in checked.records),
        problems=tuple(problems),
        findings=checked.findings,
        rechecked=tuple(again),
        not_rechecked=tuple(not_again),
    )


def evidence_export(folder: str | Path, out: str | Path) -> Exported:
    """Write the records as an RO-Crate (Process Run Crate), each also as an in-toto statement.

    The same records give the same bytes. Raises what `read_folder` raises, and `InputError` when `out` holds anything
    that this export does not write.
    """
    source = Path(folder)
    records = read_folder(source)
    files = {}
    for record in records:
        path = source / f"{record.id}.json"
        document = read_document(path)
        files[record.id] = (document, path.read_bytes())
    write_crate(crate_files(records, files), Path(out))
    return Exported(folder=Path(out), count=len(records), root=root(record.id for record in records))


def _loaded(path: Path, known: Sequence[Record]) -> tuple[Record, dict[str, Any] | None]:
    given = load_record(path, known)
    return given.record, given.document


def _moment(now: datetime.datetime | None) -> datetime.datetime:
    return now or datetime.datetime.now(datetime.UTC)
