"""From what a person gives (a form in YAML or JSON, a few options, or a record made elsewhere) to a sealed record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from capienza import yamlmarks
from capienza.card.moments import end_of, start_of
from capienza.card.walk import Enough, Form, Walk
from capienza.errors import (
    CapienzaError,
    InputError,
    InputErrors,
    Message,
    Place,
    UnreachableError,
    template,
)
from capienza.evidence.claims import ANY, PLANNED_RUNS, WAIVED
from capienza.evidence.parse import MAX_FILE_BYTES, parse
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.standing import is_record_id
from capienza.evidence.store import record_of, seal, unsealed_record
from capienza.evidence.survey import find_record
from capienza.evidence.vocabulary import BYTES
from capienza.records.amounts import amount_of
from capienza.records.classes import CLASS, CLASSES
from capienza.records.digests import digest_of_file
from capienza.records.draft import DocumentRef, Draft, DraftClaim
from capienza.records.fields import CHILDREN, FORM_FIELD
from capienza.records.gpu import gpu_keys
from capienza.records.kinds import is_id_or_beginning
from capienza.records.options import option_tree
from capienza.records.rules import contradictions
from capienza.units import UNITS, parse_size
from capienza.yamlmarks import Limits, Node

NOT_A_FORM = template(
    "records.not-a-form",
    "evidence is keys and values, got {found}",
    "`capienza evidence add --kind measurement --template` prints a form to start from.",
)
FILE_DIFFERS = template(
    "records.file-differs",
    "the file {file} has the digest {found}, not the one that is written",
    "Delete the digest to have it taken, or give the file that was meant.",
)
FILE_UNREADABLE = template("records.file-unreadable", "{file}: {problem}", "Paths start from the folder of the form.")

LIMITS = Limits(max_bytes=MAX_FILE_BYTES, max_nodes=20_000)
FORM = Form(FORM_FIELD, CHILDREN, contradictions, NOT_A_FORM)
SHA256 = "sha256:"


class Given(msgspec.Struct, frozen=True):
    """A sealed record; `document` is the whole of one that was sealed elsewhere, with fields of later versions."""

    record: Record
    document: dict[str, Any] | None = None


def load_record(path: Path, known: Sequence[Record] = ()) -> Given:
    """The sealed record of one file: a form, or a record as another folder holds it.

    `known` are the records that a form may call by the first digits of their ids.

    Raises `InputErrors` with every problem of a form, `UnreachableError` when the file or one that it names is not
    there, `VerificationError` for a record that does not match its own digest.
    """
    file = str(path)
    data = yamlmarks.read_bytes(path, LIMITS.max_bytes)
    if data.lstrip().startswith(b"{") and b'"schema"' in data:
        return _made_elsewhere(parse(data, file), Place(file))
    reading = yamlmarks.read(data, file, LIMITS)
    if reading.root is None:
        raise InputErrors(reading.problems)
    return Given(_record(Walk(FORM, file, reading.problems), reading.root, path.parent, known))


def record_from(values: Mapping[str, Any], known: Sequence[Record] = ()) -> Record:
    """The sealed record of a few options: text, or a list of texts, for each key of the form.

    `document` holds texts by key, `scope` and `claims` are lists of "name=value". Raises as `load_record` does, with
    the key as place.
    """
    try:
        return _record(Walk(FORM, None), option_tree(values), Path(), known)
    except InputErrors as errors:
        raise InputErrors(_at_key(problem) for problem in errors.problems) from None
    except InputError as error:
        raise _at_key(error) from None


def _record(walk: Walk, root: Node, folder: Path, known: Sequence[Record]) -> Record:
    try:
        draft: Draft | None = walk.whole(root)
    except Enough:
        draft = None
    if draft is None:
        raise InputErrors(sorted(walk.problems, key=lambda problem: (problem.place.line, problem.place.column)))
    try:
        return seal(_unsealed(draft, walk, folder, known))
    except InputError as error:
        if error.place == Place():
            _refuse(walk, "claims" if "claims" in walk.found.nodes else "", error.message)
        raise


def _unsealed(draft: Draft, walk: Walk, folder: Path, known: Sequence[Record]) -> Record:
    made = CLASSES[draft.kind]
    producer = {
        CLASS: draft.kind,
        "source": draft.source or made.source,
        "fidelity": draft.fidelity,
        "author": draft.author,
        "tool": draft.tool.name if draft.tool else None,
        "version": draft.tool.version if draft.tool else None,
    }
    withdrawn = [_whole_id(text, "withdraws", walk, known) for text in draft.withdraws]
    inputs = [_input(text, walk, folder, known) for text in draft.inputs]
    return Record(
        kind=made.kind,
        version=draft.version,
        date=start_of(draft.date, draft.timezone),
        expires=end_of(draft.expires, draft.timezone) if draft.expires else None,
        subject=(_subject(draft.document, walk, folder),) if draft.document else (),
        scope=_scope(draft.scope),
        claims=tuple(_claims(draft)),
        method=made.method,
        producer={name: value for name, value in producer.items() if value is not None},
        inputs=tuple(dict.fromkeys((*withdrawn, *inputs))),
        notes=tuple(note for note in (draft.reason, draft.note) if note),
    )


def _claims(draft: Draft) -> Iterable[Claim]:
    yield from (Claim(quantity=criterion, value=WAIVED) for criterion in draft.criteria)
    if draft.planned_runs is not None:
        yield Claim(quantity=PLANNED_RUNS, value=draft.planned_runs)
    yield from map(_claim, draft.claims)


def _claim(written: DraftClaim) -> Claim:
    """The claim with sizes in bytes, whole numbers as they are, and everything else as text."""
    value, unit = amount_of(written.quantity, written.value, written.unit)
    if written.quantity.endswith("_bytes") or unit in UNITS:
        value, unit = parse_size(f"{value} {unit}" if unit else str(value)), BYTES
    elif isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, Decimal):
        value = f"{value:f}"
    return Claim(
        quantity=written.quantity,
        value=value,
        unit=unit,
        phase=written.phase,
        counter=written.counter,
        gpu_index=written.gpu,
        basis=written.basis,
    )


def _scope(scope: Scope) -> Scope:
    """The scope with the catalogue's key of its GPU, where the name means one."""
    if scope.gpu is None or scope.gpu == ANY:
        return scope
    keys = gpu_keys(scope.gpu)
    return msgspec.structs.replace(scope, gpu=keys[0]) if keys else scope


def _subject(document: DocumentRef, walk: Walk, folder: Path) -> Subject:
    digest = document.sha256
    if document.file is not None:
        found = _digest(document.file, "document.file", walk, folder)
        if digest not in (None, found):
            _refuse(walk, "document.sha256", FILE_DIFFERS(file=document.file, found=found))
        digest = found
    name = document.name or (Path(document.file).name if document.file else None) or document.uri or digest
    return Subject(name=name or "", uri=document.uri, sha256=digest)


def _input(text: str, walk: Walk, folder: Path, known: Sequence[Record]) -> str:
    """The id of a record, or the digest of a file; a file outweighs a record whose id begins with its name."""
    if is_record_id(text) or (text.startswith(SHA256) and is_record_id(text.removeprefix(SHA256))):
        return text
    if is_id_or_beginning(text) and not (folder / text).exists():
        return _whole_id(text, "inputs", walk, known)
    return SHA256 + _digest(text, "inputs", walk, folder)


def _whole_id(text: str, key: str, walk: Walk, known: Sequence[Record]) -> str:
    """The id of the one record that its first digits name."""
    if is_record_id(text):
        return text
    try:
        return find_record(text, known).id
    except InputError as error:
        _refuse(walk, key, error.message)


def _digest(file: str, key: str, walk: Walk, folder: Path) -> str:
    try:
        return digest_of_file(folder / file)
    except CapienzaError as error:
        problem = FILE_UNREADABLE(file=file, problem=error.message)
        raise UnreachableError(problem, _place(walk, key)) from error


def _refuse(walk: Walk, key: str, message: Message) -> NoReturn:
    raise InputErrors([InputError(message, _place(walk, key))])


def _place(walk: Walk, key: str) -> Place:
    node = walk.found.nodes[key]
    return Place(walk.file, node.line or None, node.column or None, key or None)


def _made_elsewhere(document: dict[str, Any], place: Place) -> Given:
    """A whole record. One without an id was never sealed, and is sealed here."""
    if document.get("id") or document.get("sha256"):
        return Given(record_of(document, place), document)
    return Given(seal(unsealed_record(document, place)))


def _at_key(problem: InputError) -> InputError:
    return InputError(problem.message, Place(key=problem.place.key))
