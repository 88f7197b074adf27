"""A folder of records as an RO-Crate 1.1 in the profile Process Run Crate 0.5.

Legend: a record is a File; the tool that made it a SoftwareApplication; the making a CreateAction whose `instrument` is
the tool, `object` what went in and `result` the record; who answers for it a Person; a document known by its digest
alone a CreativeWork. Sources: https://w3id.org/ro/crate/1.1, https://w3id.org/ro/wfrun/process/0.5.

Nothing here reads a clock: the same records give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from capienza.canon import digest_bytes
from capienza.evidence.record import Record, Subject
from capienza.evidence.scope import scope_text
from capienza.evidence.standing import is_record_id
from capienza.evidence.statement import statement
from capienza.evidence.store import root

METADATA = "ro-crate-metadata.json"
CRATE = "https://w3id.org/ro/crate/1.1"
PROCESS = "https://w3id.org/ro/wfrun/process/0.5"
JSON = "application/json"
Entity = dict[str, Any]


def crate_files(records: Iterable[Record], files: Mapping[str, tuple[dict[str, Any], bytes]]) -> dict[str, bytes]:
    """Every file of the crate by its path: each record, its in-toto statement, and the metadata, which come last.

    `files` gives for each id the whole document and the bytes of its file.
    """
    ordered = sorted(records, key=lambda record: record.id)
    held: dict[str, bytes] = {}
    for record in ordered:
        document, data = files[record.id]
        held[record_path(record.id)] = data
        held[_statement_path(record.id)] = statement(document, record_path(record.id), data)
    graph = _graph(ordered, held)
    metadata = {"@context": f"{CRATE}/context", "@graph": graph}
    return held | {METADATA: _json(metadata)}


def record_path(identity: str) -> str:
    """Where a record lies in the crate."""
    return f"records/{identity}.json"


def _statement_path(identity: str) -> str:
    return f"statements/{identity}.json"


def _graph(records: list[Record], held: Mapping[str, bytes]) -> list[Entity]:
    known = {record.id for record in records}
    entities: dict[str, Entity] = {}
    for record in records:
        for entity in _entities(record, known, held):
            entities.setdefault(entity["@id"], entity)
    return [
        {"@id": METADATA, "@type": "CreativeWork", "about": _ref("./"), "conformsTo": _ref(CRATE)},
        _dataset(records, entities, held),
        {"@id": PROCESS, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        *(entities[name] for name in sorted(entities)),
    ]


def _dataset(records: list[Record], entities: Mapping[str, Entity], held: Mapping[str, bytes]) -> Entity:
    dates = [record.date for record in records]
    dataset: Entity = {
        "@id": "./",
        "@type": "Dataset",
        "name": "Records of evidence",
        "description": "Dated, scoped and content-addressed records, each also as an in-toto statement.",
        "identifier": f"sha256:{root(record.id for record in records)}",
        "conformsTo": _ref(PROCESS),
        "hasPart": [_ref(path) for path in sorted(held)],
        "mentions": [_ref(name) for name in sorted(entities) if entities[name]["@type"] == "CreateAction"],
    }
    return dataset | ({"datePublished": max(dates).isoformat()} if dates else {})


def _entities(record: Record, known: set[str], held: Mapping[str, bytes]) -> Iterable[Entity]:
    """The record's files, what it is about, and how it was made."""
    path = record_path(record.id)
    about = [_subject(subject) for subject in record.subject]
    used = [_used(text, known) for text in record.inputs]
    yield _file(path, held, f"{record.kind} {record.id[:12]}") | _present(
        description=scope_text(record.scope),
        version=record.version,
        dateCreated=record.date.isoformat(),
        expires=record.expires.isoformat() if record.expires else None,
        about=[_ref(entity["@id"]) for entity in about],
        isBasedOn=[_ref(entity["@id"]) for entity in used],
    )
    statement_path = _statement_path(record.id)
    yield _file(statement_path, held, f"in-toto statement of {record.id[:12]}") | {"about": _ref(path)}
    yield from about
    yield from (entity for entity in used if len(entity) > 1)
    tool = record.producer.get("tool")
    author = record.producer.get("author")
    agent = _named("Person", author) if author else None
    if agent:
        yield agent
    if tool:
        instrument = _named("SoftwareApplication", tool, softwareVersion=record.producer.get("version"))
        yield instrument
        yield {
            "@id": f"#run-{record.id}",
            "@type": "CreateAction",
            "name": f"making of {record.kind} {record.id[:12]}",
            "instrument": _ref(instrument["@id"]),
            "object": [_ref(entity["@id"]) for entity in (*about, *used)],
            "result": [_ref(path)],
            "endTime": record.date.isoformat(),
        } | _present(agent=_ref(agent["@id"]) if agent else None)


def _file(path: str, held: Mapping[str, bytes], name: str) -> Entity:
    data = held[path]
    return {
        "@id": path,
        "@type": "File",
        "name": name,
        "encodingFormat": JSON,
        "contentSize": str(len(data)),
        "identifier": f"sha256:{digest_bytes(data)}",
    }


def _subject(subject: Subject) -> Entity:
    name = subject.sha256 or digest_bytes(f"{subject.name}\0{subject.uri}".encode(errors="surrogatepass"))
    identifier = f"sha256:{subject.sha256}" if subject.sha256 else None
    entity = {"@id": f"#document-{name}", "@type": "CreativeWork", "name": subject.name}
    return entity | _present(url=subject.uri, identifier=identifier)


def _used(text: str, known: set[str]) -> Entity:
    """An input: a record of this crate, a record that is not in it, or a file known by its digest."""
    if is_record_id(text) and text in known:
        return _ref(record_path(text))
    kind = "record" if is_record_id(text) else "file"
    name = digest_bytes(text.encode(errors="surrogatepass"))
    return {"@id": f"#{kind}-{name}", "@type": "CreativeWork", "name": f"{kind} outside this crate", "identifier": text}


def _named(kind: str, name: str, **more: str | None) -> Entity:
    digest = digest_bytes("\0".join([name, *map(str, more.values())]).encode(errors="surrogatepass"))
    return {"@id": f"#{kind}-{digest[:16]}", "@type": kind, "name": name} | _present(**more)


def _present(**fields: Any) -> Entity:
    return {name: value for name, value in fields.items() if value}


def _ref(name: str) -> Entity:
    return {"@id": name}


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2, sort_keys=True) + "\n").encode()
