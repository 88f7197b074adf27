"""The exported folder: read by another implementation of RO-Crate, the same bytes again, and nothing overwritten."""

from __future__ import annotations

import datetime
import hashlib
import json

import pytest

from capienza.api.recording import evidence_export
from capienza.errors import InputError
from capienza.evidence.record import Claim, Record, Scope, Subject
from capienza.evidence.store import root, seal, write_record

DATE = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
DIGEST = "d" * 64
SHEET = seal(
    Record(
        kind="document",
        version="2026-11",
        date=DATE,
        subject=(Subject(name="order 17", uri="https://example.com/17", sha256=DIGEST),),
        scope=Scope(offer="one", provider="caffè <b>"),
        claims=(Claim(quantity="ram_bytes", value=2**36, unit="B"),),
        producer={"source": "contract"},
    )
)
RUN = seal(
    Record(
        kind="measurement",
        version="1",
        date=DATE + datetime.timedelta(hours=1),
        scope=Scope(gpu="l4", gpus=1),
        claims=(Claim(quantity="outcome", value="completed"),),
        method="measure",
        producer={"tool": "vllm", "version": "0.11.2", "author": "A. Engineer"},
        inputs=(SHEET.id, "sha256:" + "e" * 64, "f" * 64),
        expires=DATE + datetime.timedelta(days=30),
    )
)


@pytest.fixture
def folder(tmp_path):
    for record in (SHEET, RUN):
        write_record(record, tmp_path / "evidence")
    return tmp_path / "evidence"


def tree(path):
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def graph(path):
    document = json.loads((path / "ro-crate-metadata.json").read_text())
    return {entity["@id"]: entity for entity in document["@graph"]}


def references(value):
    if isinstance(value, list):
        return [name for item in value for name in references(item)]
    return [value["@id"]] if isinstance(value, dict) and set(value) == {"@id"} else []


@pytest.mark.oracle
def test_another_implementation_reads_it(folder, tmp_path):
    rocrate = pytest.importorskip("rocrate.rocrate")
    evidence_export(folder, tmp_path / "crate")
    crate = rocrate.ROCrate(str(tmp_path / "crate"))
    assert crate.version == "1.1"
    names = {record.id: f"records/{record.id}.json" for record in (SHEET, RUN)}
    assert {entity.id for entity in crate.data_entities} == {
        *names.values(),
        *(f"statements/{identity}.json" for identity in names),
    }
    (action,) = crate.get_by_type("CreateAction")
    assert action["instrument"].type == "SoftwareApplication"
    assert (action["instrument"]["name"], action["instrument"]["softwareVersion"]) == ("vllm", "0.11.2")
    assert action["agent"]["name"] == "A. Engineer"
    assert [result.id for result in action["result"]] == [names[RUN.id]]
    assert names[SHEET.id] in {used.id for used in action["object"]}
    assert crate.root_dataset["conformsTo"].id.startswith("https://w3id.org/ro/wfrun/process/")
    about = crate.dereference(names[SHEET.id])["about"]
    assert [(entity["name"], entity["url"], entity["identifier"]) for entity in about] == [
        ("order 17", "https://example.com/17", f"sha256:{DIGEST}")
    ]


def test_every_reference_is_to_an_entity_of_the_crate(folder, tmp_path):
    evidence_export(folder, tmp_path / "crate")
    entities = graph(tmp_path / "crate")
    named = [
        name
        for entity in entities.values()
        for key, value in entity.items()
        if key != "conformsTo" or entity["@id"] == "./"
        for name in references(value)
    ]
    assert named
    assert set(named) <= set(entities)
    assert entities["./"]["identifier"] == f"sha256:{root([SHEET.id, RUN.id])}"
    assert entities["./"]["datePublished"] == RUN.date.isoformat()


def test_files_are_those_of_the_folder_and_their_digests_are_stated(folder, tmp_path):
    evidence_export(folder, tmp_path / "crate")
    entities, files = graph(tmp_path / "crate"), tree(tmp_path / "crate")
    for record in (SHEET, RUN):
        data = files[f"records/{record.id}.json"]
        assert data == (folder / f"{record.id}.json").read_bytes()
    for name, data in files.items():
        if name != "ro-crate-metadata.json":
            assert entities[name]["identifier"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
            assert entities[name]["contentSize"] == str(len(data))


def test_each_record_is_an_in_toto_statement(folder, tmp_path):
    evidence_export(folder, tmp_path / "crate")
    files = tree(tmp_path / "crate")
    sheet = json.loads(files[f"statements/{SHEET.id}.json"])
    assert sheet["_type"] == "https://in-toto.io/Statement/v1"
    assert sheet["subject"] == [{"name": "order 17", "digest": {"sha256": DIGEST}}]
    assert sheet["predicateType"] == "urn:capienza:record:document:v1"
    assert sheet["predicate"]["id"] == SHEET.id
    run = json.loads(files[f"statements/{RUN.id}.json"])
    own = f"records/{RUN.id}.json"
    assert run["subject"] == [{"name": own, "digest": {"sha256": hashlib.sha256(files[own]).hexdigest()}}]


def test_a_second_export_gives_the_same_bytes(folder, tmp_path):
    evidence_export(folder, tmp_path / "one")
    evidence_export(folder, tmp_path / "two")
    evidence_export(folder, tmp_path / "one")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_an_earlier_export_is_brought_up_to_date(folder, tmp_path):
    (folder / f"{RUN.id}.json").rename(tmp_path / "aside.json")
    evidence_export(folder, tmp_path / "crate")
    (tmp_path / "aside.json").rename(folder / f"{RUN.id}.json")
    evidence_export(folder, tmp_path / "crate")
    evidence_export(folder, tmp_path / "fresh")
    assert tree(tmp_path / "crate") == tree(tmp_path / "fresh")


@pytest.mark.parametrize("name", ["notes.txt", "records/mine.json", f"records/{SHEET.id}.json", "records/deep/x"])
def test_what_is_not_ours_is_not_touched(folder, tmp_path, name):
    path = tmp_path / "crate" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    before = tree(tmp_path / "crate")
    with pytest.raises(InputError):
        evidence_export(folder, tmp_path / "crate")
    assert tree(tmp_path / "crate") == before


def test_a_file_in_the_place_of_the_folder(folder, tmp_path):
    (tmp_path / "crate").write_text("mine")
    with pytest.raises(InputError):
        evidence_export(folder, tmp_path / "crate")


def test_an_empty_folder_is_an_empty_crate(tmp_path):
    (tmp_path / "evidence").mkdir()
    evidence_export(tmp_path / "evidence", tmp_path / "crate")
    assert graph(tmp_path / "crate")["./"]["hasPart"] == []
