"""What a list says of each record, what verification finds, and folders made to do harm."""

from __future__ import annotations

import datetime
import os

import msgspec
import pytest

from capienza.errors import InputError, UnreachableError
from capienza.evidence.folder import MAX_RECORDS
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal, write_record
from capienza.evidence.survey import find_record, referring, survey
from capienza.evidence.verify import check_folder

NOW = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
SIGNED = {"producer": {"author": "A"}, "notes": ("because",)}


def make(kind="document", **fields):
    return seal(Record(**({"kind": kind, "version": "1", "date": NOW - DAY} | fields)))


def states(*records):
    return {row.record.id: row.state for row in survey(records, NOW)}


def waiver(criterion="memory", **scope):
    return make(
        "waiver",
        claims=(Claim(quantity=criterion, value="waived"),),
        scope=Scope(**scope),
        expires=NOW + DAY,
        **SIGNED,
    )


def failed(**scope):
    return make("measurement", claims=(Claim(quantity="outcome", value="out_of_memory"),), scope=Scope(**scope))


def test_a_decision_is_no_run_of_the_plans_that_it_read():
    plan = make("plan", claims=(Claim(quantity="planned_runs", value=1),))
    decision = make("decision", inputs=(plan.id,))
    assert states(plan, decision)[decision.id] == "counts"
    assert states(decision)[decision.id] == "weak"


def test_the_standing_of_each():
    good, old, future = make(), make(expires=NOW), make(date=NOW + DAY)
    replaced, wrong = make(version="replaced"), make(version="wrong")
    supersedes = make("supersedes", inputs=(replaced.id,), **SIGNED)
    invalidates = make("invalidates", inputs=(wrong.id,), **SIGNED)
    unsigned = make("invalidates", inputs=(good.id,))
    plan = make("plan", claims=(Claim(quantity="planned_runs", value=2),))
    run = make("measurement", inputs=(plan.id,))
    everything = (good, old, future, replaced, wrong, supersedes, invalidates, unsigned, plan, run)
    assert states(*everything) == {
        good.id: "counts",
        old.id: "expired",
        future.id: "future",
        replaced.id: "superseded",
        wrong.id: "invalidated",
        supersedes.id: "counts",
        invalidates.id: "counts",
        unsigned.id: "unsigned",
        plan.id: "counts",
        run.id: "weak",
    }
    for row in survey(everything, NOW):
        assert bool(row.reasons) is (row.state != "counts")


@pytest.mark.parametrize(
    "one, failure, state",
    [
        (waiver(model="m"), failed(model="m", gpu="l4"), "void"),
        (waiver(model="m"), failed(gpu="l4"), "void"),
        (waiver(model="m"), failed(model="other"), "counts"),
        (waiver(model="m", gpu="t4"), failed(model="m", gpu="l4"), "counts"),
        (waiver("quality", model="m"), failed(model="m"), "counts"),
        (waiver("workload", model="m"), failed(model="m"), "void"),
        (
            waiver("quality", model="m"),
            make("quality_result", claims=(Claim(quantity="exact_match", value="violated"),)),
            "void",
        ),
        (waiver("compatibility"), make(claims=(Claim(quantity="compatibility", value="violated"),)), "void"),
    ],
)
def test_a_waiver_that_meets_a_failure_is_void(one, failure, state):
    assert states(one, failure)[one.id] == state


def test_a_failure_that_is_withdrawn_voids_nothing():
    one, failure = waiver(model="m"), failed(model="m")
    away = make("invalidates", inputs=(failure.id,), **SIGNED)
    assert states(one, failure, away)[one.id] == "counts"


def test_a_record_is_found_by_its_first_digits():
    records = [make(version=str(number)) for number in range(40)]
    one = records[7]
    assert find_record(one.id, records) is one
    assert find_record(one.id[:20].upper(), records) is one
    with pytest.raises(InputError) as none:
        find_record("x", records)
    assert none.value.message.code == "evidence.no-such-record"
    with pytest.raises(InputError) as several:
        find_record("", records)
    assert several.value.message.parameters["count"] == 40


def test_what_refers_to_a_record():
    plan = make("plan")
    run = make("measurement", inputs=(plan.id,))
    assert referring(plan, (plan, run)) == (run,)


def codes(checked):
    return sorted(problem.message.code for problem in checked.problems)


def test_one_bad_file_does_not_hide_the_rest(tmp_path):
    good = make()
    write_record(good, tmp_path)
    (tmp_path / "a.json").write_text("{")
    (tmp_path / f"{'b' * 64}.json").write_text((tmp_path / f"{good.id}.json").read_text())
    (tmp_path / f"{'c' * 64}.json").write_text((tmp_path / f"{good.id}.json").read_text().replace('"1"', '"2"'))
    (tmp_path / "notes.txt").write_text("x")
    checked = check_folder(tmp_path)
    assert checked.records == (good,)
    assert codes(checked) == ["evidence.digest-differs", "evidence.name-differs", "evidence.not-json"]
    assert [finding.code for finding in checked.findings] == ["evidence.foreign-file"]


def test_a_lost_reference_does_not_verify(tmp_path):
    run = make("measurement", inputs=(make("plan").id, "sha256:" + "f" * 64))
    write_record(run, tmp_path)
    assert codes(check_folder(tmp_path)) == ["evidence.reference-lost"]


def test_a_decision_pins_the_set_that_it_names(tmp_path):
    from capienza.evidence.record import Subject
    from capienza.evidence.store import root

    one = make()
    write_record(one, tmp_path)
    honest = make("decision", inputs=(one.id,), subject=(Subject(name="records", sha256=root([one.id])),))
    forged = make("decision", inputs=(one.id,), subject=(Subject(name="records", sha256="0" * 64),))
    write_record(honest, tmp_path)
    assert codes(check_folder(tmp_path)) == []
    write_record(forged, tmp_path)
    assert codes(check_folder(tmp_path)) == ["evidence.set-differs"]


class TestHostile:
    def test_a_gigabyte(self, tmp_path):
        with (tmp_path / f"{'a' * 64}.json").open("wb") as file:
            file.truncate(2**30)
        assert codes(check_folder(tmp_path)) == ["evidence.too-large"]

    def test_links_pipes_and_folders(self, tmp_path):
        (tmp_path / "a.json").symlink_to("/dev/zero")
        (tmp_path / "b.json").symlink_to("b.json")
        (tmp_path / "c.json").symlink_to("nothing")
        os.mkfifo(tmp_path / "d.json")
        (tmp_path / "e.json").mkdir()
        assert set(codes(check_folder(tmp_path))) == {"evidence.not-a-file", "evidence.unreadable"}

    @pytest.mark.parametrize(
        "text, code",
        [
            ('{"a":' * 400, "evidence.too-deep"),
            ("[" * 500_000, "evidence.too-deep"),
            ('{"schema": "capienza.record/1", "x": NaN}', "evidence.not-finite"),
            ('{"schema": "capienza.record/1", "x": 1e999}', "evidence.not-finite"),
            ('{"schema": "capienza.record/9"}', "evidence.schema-unknown"),
            ('{"schema": 1}', "evidence.schema-unknown"),
            ('{"schema": "capienza.record/1", "n": ' + "9" * 5000 + "}", "evidence.not-json"),
            ('{"schema": "capienza.record/1", "id": ["x"]}', "evidence.digest-differs"),
            ("", "evidence.not-json"),
            ("[]", "evidence.not-an-object"),
        ],
    )
    def test_content(self, tmp_path, text, code):
        (tmp_path / "x.json").write_text(text)
        assert codes(check_folder(tmp_path)) == [code]

    def test_a_malformed_waiver_with_a_right_digest(self, tmp_path):
        from capienza.canon import canonical, digest_bytes

        document = msgspec.to_builtins(waiver()) | {"notes": []}
        for key in ("id", "sha256"):
            del document[key]
        identity = digest_bytes(canonical(document))
        (tmp_path / f"{identity}.json").write_bytes(canonical(document | {"id": identity, "sha256": identity}))
        assert codes(check_folder(tmp_path)) == ["evidence.waiver-incomplete"]

    def test_very_many_files(self, tmp_path, monkeypatch):
        assert MAX_RECORDS >= 10_000
        monkeypatch.setattr("capienza.evidence.folder.MAX_RECORDS", 3)
        for number in range(4):
            (tmp_path / f"{number}.json").touch()
        with pytest.raises(InputError) as refused:
            check_folder(tmp_path)
        assert refused.value.message.code == "evidence.too-many-records"

    def test_no_folder(self, tmp_path):
        with pytest.raises(UnreachableError):
            check_folder(tmp_path / "none")
