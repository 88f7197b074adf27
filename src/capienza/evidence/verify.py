"""Check a whole folder: every file against its digest and its name, every reference, every set that a decision pins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from capienza.errors import CapienzaError, Message, Place, VerificationError, template
from capienza.evidence.folder import foreign_files, is_record_file, paths
from capienza.evidence.record import Record
from capienza.evidence.standing import record_references
from capienza.evidence.store import read_record, root

REFERENCE_LOST = template(
    "evidence.reference-lost",
    "record {record} refers to record {missing}, which is not in the folder or does not verify",
    "take it again from where it was made",
)
SET_DIFFERS = template(
    "evidence.set-differs",
    "decision {record} names records whose root is {found}; it pins {stated}",
    "it was not written by this program; decide again",
)


class Checked(msgspec.Struct, frozen=True):
    """What a folder holds: the records that verify, everything that does not, and what was not read."""

    records: tuple[Record, ...]
    problems: tuple[CapienzaError, ...]
    findings: tuple[Message, ...]


def check_folder(folder: Path) -> Checked:
    """Read every record of a folder; a bad one does not stop the rest.

    Raises `UnreachableError` when there is no such folder, `InputError` when it holds too many records.
    """
    records: dict[str, Record] = {}
    problems: list[CapienzaError] = []
    found = paths(folder)
    findings = foreign_files(found)
    for path in filter(is_record_file, found):
        try:
            record = read_record(path, findings)
        except CapienzaError as error:
            problems.append(error)
        else:
            records[record.id] = record
    for record in records.values():
        place = Place(str(folder / f"{record.id}.json"))
        problems += [VerificationError(message, place) for message in _loose_ends(record, records)]
    return Checked(tuple(records.values()), tuple(problems), tuple(findings))


def pinned(record: Record, name: str) -> str | None:
    """The digest under which a decision pins its card, offers, records, policy or decisions."""
    return next((subject.sha256 for subject in record.subject if subject.name == name), None)


def _loose_ends(record: Record, known: Mapping[str, Record]) -> list[Message]:
    references = record_references(record)
    ends = [REFERENCE_LOST(record=record.id[:12], missing=identity) for identity in references if identity not in known]
    stated, found = pinned(record, "records"), root(references)
    if record.kind == "decision" and stated != found:
        ends.append(SET_DIFFERS(record=record.id[:12], found=found, stated=stated))
    return ends
