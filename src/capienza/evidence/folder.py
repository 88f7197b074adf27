"""A folder of records as a whole: which of its files are records, and how many there may be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from capienza.errors import InputError, Message, Place, UnreachableError, template
from capienza.evidence.record import Record
from capienza.evidence.store import UNREADABLE, read_record

FOLDER_MISSING = template(
    "evidence.folder-missing",
    "there is no folder of records here",
    "make it, or give another folder",
)
TOO_MANY = template(
    "evidence.too-many-records",
    "the folder holds more than {limit} records",
    "keep one folder for each campaign",
)
FOREIGN_FILE = template(
    "evidence.foreign-file",
    "{file} is not a record file and was not read",
)
MORE_FOREIGN = template("evidence.more-foreign-files", "{count} more files that are not records were not read")

SHOWN_FILES = 10
MAX_RECORDS = 10_000
"""A decision names every record that it read, and is itself a record within the limit of size."""


def read_folder(folder: Path, findings: list[Message] | None = None) -> tuple[Record, ...]:
    """Every record of a folder, verified, sorted by id.

    What was not read is added to `findings`: unknown fields, files of another kind. Raises what `read_record`
    raises at the first file that fails, and `UnreachableError` when there is no such folder.
    """
    found = paths(folder)
    if findings is not None:
        findings.extend(foreign_files(found))
    return tuple(read_record(path, findings) for path in found if is_record_file(path))


def foreign_files(found: Iterable[Path]) -> list[Message]:
    """What of a folder is no record, the first few by name."""
    names = [path.name for path in found if not is_record_file(path)]
    more = [MORE_FOREIGN(count=len(names) - SHOWN_FILES)] if len(names) > SHOWN_FILES else []
    return [*(FOREIGN_FILE(file=name) for name in names[:SHOWN_FILES]), *more]


def paths(folder: Path) -> list[Path]:
    """What lies in the folder, sorted by name.

    Raises `UnreachableError` when there is no such folder, `InputError` when it holds too many records.
    """
    if not folder.is_dir():
        raise UnreachableError(FOLDER_MISSING(), Place(str(folder)))
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        raise UnreachableError(UNREADABLE(problem=error.strerror or str(error)), Place(str(folder))) from error
    if sum(map(is_record_file, found)) > MAX_RECORDS:
        raise InputError(TOO_MANY(limit=MAX_RECORDS), Place(str(folder)))
    return found


def is_record_file(path: Path) -> bool:
    """Is the file named as a record? A hidden one is a record that is still being written."""
    return path.suffix == ".json" and not path.name.startswith(".")
