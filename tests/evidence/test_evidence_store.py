"""A folder of records: sealed, written whole, read with every doubt raised."""

from __future__ import annotations

import datetime
import hashlib
import json
import os

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.canon import canonical
from capienza.errors import CapienzaError, InputError, Place, UnreachableError, VerificationError
from capienza.evidence.folder import read_folder
from capienza.evidence.parse import MAX_FILE_BYTES, parse
from capienza.evidence.record import SCHEMA, Claim, Record, Scope, Subject
from capienza.evidence.store import read_record, root, seal, unsealed_record, write_record

DATE = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)


def record(**fields) -> Record:
    return Record(**({"kind": "measurement", "version": "1", "date": DATE} | fields))


def raw(**fields) -> dict:
    """A record as a file may hold it, with the digest of exactly what it holds."""
    document = {"schema": "capienza.record/1", "kind": "document", "version": "1", "date": "2026-11-30T12:00:00Z"}
    document |= fields
    digest = hashlib.sha256(
        json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    ).hexdigest()
    return document | {"id": digest, "sha256": digest}


def put(folder, document):
    path = folder / f"{document['id']}.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


texts = st.text(max_size=12)
records = st.builds(
    Record,
    kind=st.sampled_from(["measurement", "document", "plan"]),
    version=texts,
    date=st.integers(0, 10**6).map(lambda hours: DATE + datetime.timedelta(hours=hours)),
    subject=st.lists(st.builds(Subject, name=texts), max_size=2).map(tuple),
    scope=st.builds(Scope, model=st.none() | texts, tokens=st.none() | st.integers(1, 2**40)),
    claims=st.lists(
        st.builds(Claim, quantity=texts, value=st.integers(0, 2**62) | st.text('abc é"\\\n', max_size=9)), max_size=3
    ).map(tuple),
    notes=st.lists(texts, max_size=2).map(tuple),
)


class TestSeal:
    def test_id_is_the_digest_of_everything_else(self):
        sealed = seal(record())
        document = json.loads(canonical(sealed))
        rest = {key: value for key, value in document.items() if key not in ("id", "sha256")}
        expected = hashlib.sha256(
            json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        ).hexdigest()
        assert (sealed.id, sealed.sha256) == (expected, expected)

    def test_equal_moments_have_equal_ids(self):
        rome = datetime.timezone(datetime.timedelta(hours=1))
        assert seal(record(date=DATE.astimezone(rome))).id == seal(record()).id

    def test_sealing_twice_changes_nothing(self):
        assert seal(seal(record())) == seal(record())

    @pytest.mark.parametrize(
        "fields, code",
        [
            ({"date": DATE.replace(tzinfo=None)}, "evidence.date-without-offset"),
            ({"expires": DATE.replace(tzinfo=None)}, "evidence.date-without-offset"),
            ({"claims": (Claim(quantity="loss", value="NaN"),)}, "evidence.not-finite"),
            ({"claims": (Claim(quantity="loss", value="-inf"),)}, "evidence.not-finite"),
            ({"claims": (Claim(quantity="peak_bytes", value=-1),)}, "evidence.not-positive"),
            ({"scope": Scope(tokens=0)}, "evidence.not-positive"),
            ({"notes": ("\ud800",)}, "evidence.not-a-record"),
        ],
    )
    def test_what_no_record_may_hold(self, fields, code):
        with pytest.raises(InputError) as caught:
            seal(record(**fields))
        assert caught.value.message.code == code


class TestFolder:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(records, max_size=4))
    def test_what_is_written_is_read(self, tmp_path_factory, some):
        folder = tmp_path_factory.mktemp("records")
        sealed = [seal(one) for one in some]
        for one in sealed:
            assert write_record(one, folder).name == f"{one.id}.json"
        expected = {one.id: one for one in sealed}
        assert read_folder(folder) == tuple(expected[key] for key in sorted(expected))

    def test_writing_again_is_quiet_and_leaves_no_other_file(self, tmp_path):
        sealed = seal(record())
        first = write_record(sealed, tmp_path / "new" / "folder")
        assert write_record(record(), first.parent) == first
        assert [path.name for path in first.parent.iterdir()] == [f"{sealed.id}.json"]

    def test_another_content_is_never_overwritten(self, tmp_path):
        sealed = seal(record())
        path = tmp_path / f"{sealed.id}.json"
        path.write_text("something of somebody else")
        with pytest.raises(VerificationError) as caught:
            write_record(sealed, tmp_path)
        assert caught.value.message.code == "evidence.content-differs"
        assert path.read_text() == "something of somebody else"

    def test_a_record_changed_after_sealing_is_not_written(self, tmp_path):
        changed = msgspec.structs.replace(seal(record()), version="2")
        with pytest.raises(VerificationError):
            write_record(changed, tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_failed_write_leaves_nothing(self, tmp_path, monkeypatch):
        def refuse(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(UnreachableError) as caught:
            write_record(record(), tmp_path)
        assert "No space left" in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_a_missing_folder(self, tmp_path):
        with pytest.raises(UnreachableError) as caught:
            read_folder(tmp_path / "nowhere")
        assert (caught.value.exit_code, caught.value.message.code) == (4, "evidence.folder-missing")

    def test_other_files_are_reported(self, tmp_path):
        write_record(record(), tmp_path)
        (tmp_path / "README.md").write_text("notes")
        findings = []
        assert len(read_folder(tmp_path, findings)) == 1
        assert [str(one) for one in findings] == ["README.md is not a record file and was not read"]

    def test_a_folder_named_like_a_record(self, tmp_path):
        (tmp_path / "a.json").mkdir()
        with pytest.raises(InputError) as caught:
            read_folder(tmp_path)
        assert caught.value.message.code == "evidence.not-a-file"

    def test_a_pipe_does_not_block(self, tmp_path):
        os.mkfifo(tmp_path / "a.json")
        with pytest.raises(InputError):
            read_folder(tmp_path)


class TestVerification:
    def test_a_changed_figure_does_not_verify(self, tmp_path):
        reading = Claim(quantity="peak_bytes", value=20, unit="B", counter="device", phase="load")
        sealed = seal(record(claims=(reading,)))
        path = write_record(sealed, tmp_path)
        path.write_text(path.read_text().replace('"value":20', '"value":10'))
        with pytest.raises(VerificationError) as caught:
            read_folder(tmp_path)
        assert caught.value.exit_code == 20
        assert path.name in str(caught.value)
        assert sealed.id in str(caught.value)

    def test_another_name_does_not_verify(self, tmp_path):
        path = write_record(record(), tmp_path)
        path.rename(tmp_path / f"{'0' * 64}.json")
        with pytest.raises(VerificationError) as caught:
            read_folder(tmp_path)
        assert caught.value.message.code == "evidence.name-differs"

    def test_a_file_without_id_does_not_verify(self, tmp_path):
        document = raw()
        path = tmp_path / f"{document['id']}.json"
        path.write_text(json.dumps({key: value for key, value in document.items() if key != "id"}))
        with pytest.raises(VerificationError):
            read_record(path)

    @pytest.mark.parametrize("position", range(0, 600, 7))
    def test_any_changed_byte_is_noticed(self, tmp_path, position):
        path = write_record(record(scope=Scope(model="m", tokens=8192)), tmp_path)
        data = bytearray(path.read_bytes())
        data[position % (len(data) - 1)] ^= 1
        path.write_bytes(bytes(data))
        with pytest.raises((VerificationError, InputError)):
            read_folder(tmp_path)


class TestSchema:
    @pytest.mark.parametrize("schema", ["capienza.record/2", "capienza.record/11", "other/1", "", None, 1])
    def test_an_unknown_major_is_refused(self, tmp_path, schema):
        with pytest.raises(InputError) as caught:
            read_record(put(tmp_path, raw(schema=schema)))
        assert caught.value.message.code == "evidence.schema-unknown"

    def test_a_later_minor_is_read_with_a_finding(self, tmp_path):
        document = raw(schema="capienza.record/1.4", scope={"model": "m", "attention": "paged"}, weather="fine")
        findings = []
        read = read_record(put(tmp_path, document), findings)
        assert (read.scope.model, read.id) == ("m", document["id"])
        assert [one.parameters["field"] for one in findings] == ["scope.attention", "weather"]

    @pytest.mark.parametrize(
        "fields", [{"kind": "rumour"}, {"version": 1}, {"claims": [{"quantity": "x", "value": 1.5}]}, {"date": "today"}]
    )
    def test_a_wrong_field_is_named(self, tmp_path, fields):
        with pytest.raises(InputError) as caught:
            read_record(put(tmp_path, raw(**fields)))
        assert caught.value.message.code == "evidence.not-a-record"
        assert next(iter(fields)) in str(caught.value)

    def test_a_time_without_offset_is_refused(self, tmp_path):
        with pytest.raises(InputError) as caught:
            read_record(put(tmp_path, raw(date="2026-11-30T12:00:00")))
        assert caught.value.message.code == "evidence.date-without-offset"


HOSTILE = {
    "empty": b"",
    "cut off": b'{"schema": "capienza.record/1", "kind": "docu',
    "binary": bytes(range(256)),
    "not utf-8": b'{"a": "\xff\xfe"}',
    "byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "NaN": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "endless exponent": b'{"a": 1e999}',
    "endless integer": b'{"a": ' + b"9" * 5000 + b"}",
    "written twice": b'{"kind": "document", "kind": "waiver"}',
    "written twice, deep": b'{"a": {"b": 1, "b": 2}}',
    "array": b"[1, 2]",
    "text": b'"record"',
    "deep arrays": b'{"a": ' + b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "deep after a string": b'{"a[[": "]]\\"", "b": ' + b"[" * 40 + b"]" * 40 + b"}",
    "too large": b'{"a": "' + b"x" * MAX_FILE_BYTES + b'"}',
    "quotes that never end": b'"' + b'\\"' * (MAX_FILE_BYTES // 2 - 10),
    "many keys, one twice": b"{" + b",".join(b'"k%d":1' % n for n in range(80_000)) + b',"k0":1}',
    "lone surrogate": b'{"schema": "capienza.record/1", "kind": "\\ud800"}',
}


class TestHostile:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_ends_in_one_clear_error(self, tmp_path, name):
        path = tmp_path / f"{'a' * 64}.json"
        path.write_bytes(HOSTILE[name])
        with pytest.raises(CapienzaError) as caught:
            read_folder(tmp_path)
        assert path.name in str(caught.value)
        assert len(str(caught.value.message)) < 400

    @settings(max_examples=300, deadline=None)
    @given(st.binary(max_size=200) | st.text('{}[]",:\\0e9aNI -', max_size=80).map(str.encode))
    def test_any_bytes_end_in_a_document_or_an_input_error(self, data):
        places = []
        try:
            document = parse(data, "x.json")
        except InputError as error:
            document, places = {}, [error.place.file]
        assert isinstance(document, dict)
        assert places in ([], ["x.json"])

    def test_the_place_of_a_syntax_error(self):
        with pytest.raises(InputError) as caught:
            parse(b'{"a": 1,\n "b": }', "x.json")
        assert (caught.value.place.line, caught.value.place.column) == (2, 7)


def reference_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, as written there: split at the largest power of two below n."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\1" + reference_root(leaves[:split]) + reference_root(leaves[split:])).digest()


class TestRoot:
    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.binary(min_size=32, max_size=32), max_size=20, unique=True), st.randoms())
    def test_agrees_with_the_definition_in_any_order(self, digests, random):
        expected = reference_root(sorted(digests)).hex()
        shuffled = [digest.hex() for digest in digests]
        random.shuffle(shuffled)
        assert root(shuffled) == expected
        assert root(shuffled + shuffled[:1]) == expected

    def test_a_record_taken_away_changes_it(self):
        digests = [hashlib.sha256(bytes([n])).hexdigest() for n in range(5)]
        assert len({root(digests), root(digests[1:]), root([])}) == 3


@pytest.mark.parametrize("field", ["date", "expires"])
@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_moment_that_utc_does_not_have_is_refused(field, moment):
    document = {"schema": SCHEMA, "kind": "document", "version": "1", "date": "2026-11-30T00:00:00Z"} | {field: moment}
    with pytest.raises(InputError) as caught:
        unsealed_record(document, Place("record.json"))
    assert caught.value.message.code == "evidence.date-beyond-utc"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
@pytest.mark.parametrize("field", ["kind", "date", "method", "version", "notes"])
def test_half_a_character_is_no_text_of_a_record(field, text):
    document = {"schema": SCHEMA, "kind": "document", "version": "1", "date": "2026-11-30T00:00:00Z"}
    with pytest.raises(InputError) as caught:
        seal(unsealed_record(document | {field: [text] if field == "notes" else text}, Place("record.json")))
    assert caught.value.message.code == "evidence.not-a-record"
