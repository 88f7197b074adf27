"""A folder of records: each a file named by its digest, none ever edited.

Sets merge by union. The root of a set pins all of it, so that a record taken away is noticed. What was read is
verified against its own digest; unknown fields of a later minor schema stay part of the digest and are reported.
"""

from __future__ import annotations

import datetime
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from capienza.canon import canonical, digest_bytes
from capienza.errors import InputError, Message, Place, UnreachableError, VerificationError, template
from capienza.evidence.parse import MAX_FILE_BYTES, MOST, NOT_FINITE, TOO_LARGE, parse
from capienza.evidence.record import SCHEMA, Claim, Record, Scope, Subject
from capienza.evidence.vocabulary import misunderstood

IDENTITY = ("id", "sha256")
MAJOR = SCHEMA
"""Family and major version; a minor version follows after a point: "capienza.record/1.3"."""

UNREADABLE = template(
    "evidence.unreadable",
    "the file system refuses: {problem}",
    "check that the path exists and may be read and written",
)
NOT_A_FILE = template(
    "evidence.not-a-file",
    "not a regular file",
    "a folder of records holds files named DIGEST.json only",
)
NOT_A_RECORD = template(
    "evidence.not-a-record",
    "not a record: {problem}",
    "write it again as the how-to on evidence shows",
)
SCHEMA_UNKNOWN = template(
    "evidence.schema-unknown",
    "schema {found}; this version reads {accepted}",
    "read it with the version of capienza that wrote it",
)
DATE_WITHOUT_OFFSET = template(
    "evidence.date-without-offset",
    "{field} has no offset from UTC",
    "write it as 2026-11-30T12:00:00Z",
)
DATE_BEYOND_UTC = template(
    "evidence.date-beyond-utc",
    "{field} is {found}, which no calendar has in UTC",
    "write a moment of the years 1 to 9999, such as 2026-11-30T12:00:00Z",
)
NOT_POSITIVE = template(
    "evidence.not-positive",
    "{field} is {found}; a whole number from {smallest} is accepted",
    "leave the field out when it is not known",
)
DIGEST_DIFFERS = template(
    "evidence.digest-differs",
    "the content has the digest {found}; the record says {stated}",
    "the file was changed after it was written; take it again from where it was made",
)
NAME_DIFFERS = template(
    "evidence.name-differs",
    "the content has the digest {found}, which is not the file's name",
    "rename the file to {found}.json",
)
CONTENT_DIFFERS = template(
    "evidence.content-differs",
    "the file exists with a different content",
    "restore the file from where it was made, or remove it",
)
UNKNOWN_FIELD = template(
    "evidence.unknown-field",
    "{file}: the field {field} is not known to this version and was not read",
    "a later version of capienza wrote it",
)


_ENDLESS_NUMBERS = frozenset({"nan", "inf", "infinity"})


def seal(record: Record) -> Record:
    """The record with times in UTC and its id: the sha256 of its canonical JSON without `id` and `sha256`.

    Raises `InputError` for a time without offset, or a number that no record may hold.
    """
    _check(record, Place())
    record = msgspec.structs.replace(
        record,
        date=record.date.astimezone(datetime.UTC),
        expires=record.expires and record.expires.astimezone(datetime.UTC),
    )
    identity = _identity(msgspec.to_builtins(record), Place())
    return msgspec.structs.replace(record, id=identity, sha256=identity)


def write_record(record: Record, folder: Path) -> Path:
    """Write the record as DIGEST.json and return its path; a record without an id is sealed first.

    The file appears whole or not at all. Raises `VerificationError` when the record does not match its id or
    the file exists with another content, `InputError` when it is too large, `UnreachableError` when the folder
    cannot be written.
    """
    document = msgspec.to_builtins(record if record.id else seal(record))
    return write_document(document, folder)


def write_document(document: dict[str, Any], folder: Path) -> Path:
    """Write a sealed record with all its fields, those of a later minor version included; as `write_record`."""
    identity = _verify(document, Place())
    data = canonical(document) + b"\n"
    if len(data) > MAX_FILE_BYTES:
        raise InputError(TOO_LARGE(size_bytes=len(data), limit=MOST))
    path = folder / f"{identity}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            if path.read_bytes() != data:
                raise VerificationError(CONTENT_DIFFERS(), Place(str(path)))
        else:
            write_file(path, data)
    except OSError as error:
        raise UnreachableError(UNREADABLE(problem=error.strerror or str(error)), Place(str(path))) from error
    return path


def read_record(path: Path, findings: list[Message] | None = None) -> Record:
    """Read and verify one file.

    Raises `VerificationError` when content, id and file name disagree, `InputError` when it is not a record
    this version reads, `UnreachableError` when it cannot be read. Unknown fields are added to `findings`.
    """
    place = Place(str(path))
    document = read_document(path)
    record = record_of(document, place)
    if path.name != f"{record.id}.json":
        raise VerificationError(NAME_DIFFERS(found=record.id), place)
    if findings is not None:
        findings.extend(UNKNOWN_FIELD(file=path.name, field=field) for field in _unknown_fields(document))
    return record


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object of one file, not verified. Raises `InputError` or `UnreachableError`."""
    place = Place(str(path))
    return parse(_read(path, place), place.file)


def record_of(document: dict[str, Any], place: Place) -> Record:
    """The record that a document is, verified. Raises what `read_record` raises for its content."""
    _check_schema(document, place)
    _verify(document, place)
    return unsealed_record(document, place)


def unsealed_record(document: dict[str, Any], place: Place) -> Record:
    """The record that a document is, whatever digest it states. Raises `InputError` for what is no record."""
    _check_schema(document, place)
    try:
        record = msgspec.convert(document, Record)
    except (msgspec.ValidationError, UnicodeError) as error:  # half a surrogate pair is no text
        raise InputError(NOT_A_RECORD(problem=str(error)[:200]), place) from error
    _check(record, place)
    return record


def _check_schema(document: dict[str, Any], place: Place) -> None:
    schema = document.get("schema")
    if not (isinstance(schema, str) and (schema == MAJOR or schema.startswith(f"{MAJOR}."))):
        raise InputError(SCHEMA_UNKNOWN(found=str(schema)[:64], accepted=MAJOR), place)


def root(digests: Iterable[str]) -> str:
    """The Merkle root of a set of sha256 digests, whatever their order.

    Leaves and nodes are hashed apart, as in RFC 6962 section 2.1, over the sorted set.
    """
    level = [digest_bytes(b"\0" + bytes.fromhex(digest)) for digest in sorted(set(digests))]
    if not level:
        return digest_bytes(b"")
    while len(level) > 1:
        pairs = [
            digest_bytes(b"\1" + bytes.fromhex(left) + bytes.fromhex(right))
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def _identity(document: dict[str, Any], place: Place) -> str:
    try:
        return digest_bytes(canonical({key: value for key, value in document.items() if key not in IDENTITY}))
    except ValueError as error:
        raise InputError(NOT_A_RECORD(problem=str(error)[:200]), place) from error


def _verify(document: dict[str, Any], place: Place) -> str:
    found = _identity(document, place)
    for name in IDENTITY:
        if document.get(name) != found:
            raise VerificationError(DIGEST_DIFFERS(found=found, stated=str(document.get(name))[:64]), place)
    return found


def _check(record: Record, place: Place) -> None:
    """What the types cannot say: times with an offset, no endless numbers, nothing negative where it cannot be."""
    for field in ("date", "expires"):
        value = getattr(record, field)
        if value is not None and value.utcoffset() is None:
            raise InputError(DATE_WITHOUT_OFFSET(field=field), place)
        if value is not None and not _is_in_utc(value):
            raise InputError(DATE_BEYOND_UTC(field=field, found=value.isoformat()), place)
    for field in Scope.__struct_fields__:
        value = getattr(record.scope, field)
        if isinstance(value, int) and value < 1:
            raise InputError(NOT_POSITIVE(field=f"scope.{field}", found=value, smallest=1), place)
    for claim in record.claims:
        if isinstance(claim.value, int) and claim.value < 0:
            raise InputError(NOT_POSITIVE(field=claim.quantity, found=claim.value, smallest=0), place)
        if isinstance(claim.value, str) and claim.value.strip().lstrip("+-").casefold() in _ENDLESS_NUMBERS:
            raise InputError(NOT_FINITE(found=claim.value[:64]), place)
    problem = misunderstood(record)
    if problem is not None:
        raise InputError(problem, place)


def _is_in_utc(moment: datetime.datetime) -> bool:
    try:
        moment.astimezone(datetime.UTC)
    except OverflowError:
        return False
    return True


def _unknown_fields(document: dict[str, Any]) -> list[str]:
    parts: list[tuple[str, type[msgspec.Struct], Any]] = [("", Record, document)]
    parts.append(("scope.", Scope, document.get("scope", {})))
    parts += [("subject.", Subject, part) for part in document.get("subject", ())]
    parts += [("claims.", Claim, part) for part in document.get("claims", ())]
    unknown = {prefix + key for prefix, kind, part in parts for key in part if key not in kind.__struct_fields__}
    return sorted(unknown)


def _read(path: Path, place: Place) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(NOT_A_FILE(), place)
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
            if len(data) > MAX_FILE_BYTES:
                size = os.fstat(file.fileno()).st_size
                raise InputError(TOO_LARGE(size_bytes=size, limit=MOST), place)
    except OSError as error:
        raise UnreachableError(UNREADABLE(problem=error.strerror or str(error)), place) from error
    return data


def write_file(path: Path, data: bytes) -> None:
    """Through a temporary file beside it, so that a reader never sees a half-written one. Raises `OSError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
