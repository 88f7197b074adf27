"""`evidence` and `decide --keep` on the command line: what a campaign does from the first record to the export."""

import json

import pytest

from capienza.evidence.folder import read_folder

WAIVER = ("--criterion", "quality", "--author", "A. Engineer", "--reason", "pilot", "--expires", "2999-01-01T00:00Z")
RUN = """
evidence: 1
kind: software_page
date: 2026-11-01T00:00Z
document: {name: vLLM hardware table, uri: "https://docs.example/table"}
scope: {model: Qwen--Qwen3-8B, engine: vllm, engine_version: "0.11.2", weight_format: bf16, kv_format: bf16, gpu: any}
claims:
- {quantity: compatibility, value: satisfied, basis: row bf16}
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ev"


@pytest.fixture
def add(capienza, folder):
    def run(*arguments):
        return capienza("evidence", "add", *arguments, "--evidence", folder)

    return run


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.yaml"
    path.write_text(RUN)
    return path


def test_what_is_added_twice_stays_as_it_is(add, folder, page):
    first = add(page)
    assert (first.code, first.err) == (0, "")
    assert "Added as" in first.out
    (path,) = folder.iterdir()
    before = path.stat().st_mtime_ns
    assert "It was there already, nothing changed" in add(page).out
    assert (list(folder.iterdir()), path.stat().st_mtime_ns) == ([path], before)
    again = json.loads(add(page, "--json").out)
    assert (again["schema"], again["is_new"]) == ("capienza.evidence-add/1", False)


def test_a_record_of_another_folder_is_taken_over(add, folder, page, tmp_path, capienza):
    add(page)
    (path,) = folder.iterdir()
    assert capienza("evidence", "add", path, "--evidence", tmp_path / "other").code == 0
    assert (tmp_path / "other" / path.name).read_bytes() == path.read_bytes()
    assert capienza("evidence", "add", path, "--evidence", folder).code == 0
    assert len(list(folder.iterdir())) == 1


def test_a_later_minor_version_keeps_the_fields_that_this_one_does_not_know(tmp_path, capienza, folder):
    from capienza.canon import canonical, digest_bytes

    document = {"schema": "capienza.record/1.7", "kind": "plan", "version": "1", "date": "2026-11-30T00:00:00Z"}
    document["colour"] = "red"
    identity = digest_bytes(canonical(document))
    source = tmp_path / "later.json"
    source.write_bytes(canonical(document | {"id": identity, "sha256": identity}))
    assert capienza("evidence", "add", source, "--evidence", folder).code == 0
    assert b'"colour":"red"' in (folder / f"{identity}.json").read_bytes()
    assert capienza("evidence", "verify", "--evidence", folder).code == 0


def test_options_for_the_common_cases(add, folder, tmp_path):
    order = tmp_path / "order.pdf"
    order.write_bytes(b"%PDF")
    sheet = ("--kind", "commercial_sheet", "--source", "contract", "--document", order, "--scope", "offer=one")
    assert add(*sheet, "--claim", "ram_bytes=128 GiB", "--claim", "gpu_link=nvlink").code == 0
    assert add("--kind", "waiver", *WAIVER, "--scope", "model=m").code == 0
    sheet, waiver = sorted(read_folder(folder), key=lambda record: record.kind)
    assert (sheet.subject[0].name, [claim.value for claim in sheet.claims]) == ("order.pdf", [128 * 2**30, "nvlink"])
    assert (waiver.claims[0].quantity, waiver.producer["author"], waiver.notes) == (
        "quality",
        "A. Engineer",
        ("pilot",),
    )
    assert add("--kind", "invalidates", "--withdraw", waiver.id, "--author", "B", "--reason", "over").code == 0


@pytest.mark.parametrize(
    "arguments, code, text",
    [
        ((), 2, "nothing to add"),
        (("--template",), 2, "--kind"),
        (("--kind", "waiver"), 3, "a waiver must state author"),
        (("--kind", "waiver"), 3, "a waiver must state expires"),
        (("--kind", "waiver", *WAIVER[:-1], "2001-01-01T00:00Z", "--scope", "model=m"), 3, "expires"),
        (("no-such.yaml",), 4, "no-such.yaml"),
        (("no-such.yaml", "--author", "A"), 2, "--author"),
        (("--kind", "measurement", "--scope", "gpu=A100", "--claim", "outcome=done"), 3, "scope.gpu"),
    ],
)
def test_what_cannot_be_added(add, folder, arguments, code, text):
    shown = add(*arguments)
    assert (shown.code, shown.out) == (code, "")
    assert text in shown.err
    assert not folder.exists()


def test_a_template_is_a_form(capienza, tmp_path, add):
    shown = capienza("evidence", "add", "--kind", "measurement", "--template", "--lang", "it")
    assert shown.code == 0
    form = tmp_path / "form.yaml"
    form.write_text(shown.out)
    assert add(form).code == 0


def test_list_says_what_counts(capienza, add, folder, page):
    add(page)
    add("--kind", "waiver", *WAIVER, "--scope", "model=m")
    add("--kind", "measurement", "--scope", "model=m", "--claim", "outcome=out_of_memory")
    document = json.loads(capienza("evidence", "list", "--evidence", folder, "--json").out)
    assert document["schema"] == "capienza.evidence-list/1"
    assert {row["class"]: row["standing"] for row in document["records"]} == {
        "software_page": "counts",
        "waiver": "counts",
        "measurement": "counts",
    }
    add("--kind", "waiver", *WAIVER[2:], "--criterion", "memory", "--scope", "model=m")
    shown = capienza("evidence", "list", "--evidence", folder)
    assert "void wherever record" in shown.out
    assert "official software page" in shown.out
    assert "pagina ufficiale" in capienza("evidence", "list", "--evidence", folder, "--lang", "it").out


def test_show_by_the_first_digits(capienza, add, folder, page):
    add(page)
    (record,) = read_folder(folder)
    add("--kind", "invalidates", "--withdraw", record.id, "--author", "A", "--reason", "wrong page")
    shown = capienza("evidence", "show", record.id[:6], "--evidence", folder)
    assert shown.code == 0
    assert "invalidated" in shown.out
    document = json.loads(capienza("evidence", "show", record.id, "--evidence", folder, "--json").out)
    assert (document["schema"], document["record"]["id"], len(document["referring"])) == (
        "capienza.evidence-record/1", record.id, 1,
    )  # fmt: skip
    assert capienza("evidence", "show", "zz", "--evidence", folder).code == 3
    assert capienza("evidence", "show", "aa", "--evidence", folder / "none").code == 4


def test_verify_and_export(capienza, add, folder, page, tmp_path):
    add(page)
    assert capienza("evidence", "verify", "--evidence", folder).code == 0
    assert capienza("evidence", "export", "--evidence", folder, "--out", tmp_path / "crate").code == 0
    (path,) = folder.iterdir()
    path.write_text(path.read_text().replace("satisfied", "violated"))
    shown = capienza("evidence", "verify", "--evidence", folder, "--json")
    assert shown.code == 20
    document = json.loads(shown.out)
    assert (document["ok"], document["problems"][0]["code"]) == (False, "evidence.digest-differs")
    assert capienza("evidence", "export", "--evidence", folder, "--out", tmp_path / "other").code == 20
    assert not (tmp_path / "other").exists()


@pytest.fixture
def decision(tmp_path, examples):
    offers = tmp_path / "offers.yaml"
    offers.write_text("- {id: a, provider: p, gpu: L40S, cards: 1, days: 1, total: 5 USD}\n")
    return (examples / "cards" / "qwen3-8b-vllm.yaml", "--offers", offers)


def test_a_cell_is_followed_to_the_claims_of_its_records(capienza, add, folder, page, decision):
    added = json.loads(add(page, "--json").out)["record"]
    asked = ("decide", *decision, "--evidence", folder, "--why", "a", "compatibility")
    shown = capienza(*asked)
    assert added["id"] in shown.out, shown.out
    assert "row bf16" in shown.out
    document = json.loads(capienza(*asked, "--json").out)
    assert document["evidence"][0]["sha256"] == added["sha256"]
    assert document["records"] == [added]


def test_a_decision_that_is_kept_comes_out_again(capienza, add, folder, page, decision):
    add(page)
    kept = capienza("decide", *decision, "--evidence", folder, "--keep", "--json")
    assert kept.code == 10
    assert "kept as" in kept.err
    card, _, offers = decision
    verify = ("evidence", "verify", "--evidence", folder, "--json")
    (reason,) = json.loads(capienza(*verify).out)["not_rechecked"]
    assert reason["code"] == "evidence.decision-without-card"
    again = json.loads(capienza(*verify, "--card", card, "--offers", offers).out)
    assert (again["ok"], len(again["rechecked"]), again["not_rechecked"]) == (True, 1, [])
    offers.write_text(offers.read_text().replace("5 USD", "6 USD"))
    (reason,) = json.loads(capienza(*verify, "--card", card, "--offers", offers).out)["not_rechecked"]
    assert reason["code"] == "evidence.decision-of-other-offers"


def test_a_decision_that_was_never_made_does_not_verify(capienza, add, folder, page, decision):
    import msgspec

    from capienza.evidence.record import Claim
    from capienza.evidence.store import seal, write_record

    add(page)
    capienza("decide", *decision, "--evidence", folder, "--keep")
    made = next(record for record in read_folder(folder) if record.kind == "decision")
    (folder / f"{made.id}.json").unlink()
    claims = (Claim(quantity="admissible", value=1), *made.claims[1:], Claim(quantity="selected", value="a"))
    write_record(seal(msgspec.structs.replace(made, claims=claims, id="", sha256="")), folder)
    card, _, offers = decision
    shown = capienza("evidence", "verify", "--evidence", folder, "--card", card, "--offers", offers)
    assert shown.code == 20
    assert "does not come out again" in shown.out


def test_a_record_taken_away_after_the_decision_is_missed(capienza, add, folder, page, decision):
    added = json.loads(add(page, "--json").out)
    capienza("decide", *decision, "--evidence", folder, "--keep")
    (folder / f"{added['record']['id']}.json").unlink()
    shown = capienza("evidence", "verify", "--evidence", folder)
    assert shown.code == 20
    assert added["record"]["id"] in shown.out


@pytest.mark.parametrize("more", [(), ("--json",), ("--format", "md"), ("--out", "OUT.md")])
def test_a_decision_that_cannot_be_kept_is_not_shown_either(capienza, add, folder, page, decision, more, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    add(page)
    monkeypatch.setattr("capienza.evidence.store.write_file", full)
    more = [str(folder.with_name(word)) if word.endswith(".md") else word for word in more]
    shown = capienza("decide", *decision, "--evidence", folder, "--keep", *more)
    assert shown.code == 4
    assert "No space left" in shown.out + shown.err
    assert "to confirm" not in shown.out
    if "--json" in more:
        assert json.loads(shown.out)["ok"] is False


@pytest.mark.parametrize("arguments", [("--keep",), ("--keep", "--evidence", "x", "--why", "a", "memory")])
def test_keep_needs_a_folder_and_a_whole_decision(capienza, decision, arguments):
    assert capienza("decide", *decision, *arguments).code == 2


def test_the_kinds_of_the_command_are_the_classes():
    from capienza.cli.evidence import KINDS
    from capienza.records.classes import CLASSES

    assert tuple(CLASSES) == KINDS


def test_the_criteria_that_a_waiver_may_name_are_those_of_the_policy():
    from capienza.decide.policy import CRITERIA
    from capienza.evidence import vocabulary

    assert tuple(criterion.id for criterion in CRITERIA) == vocabulary.CRITERIA


def test_other_records_are_named_by_their_first_digits(capienza, tmp_path):
    folder, words = str(tmp_path / "ev"), ("--author", "A", "--reason", "B")
    sheet = ("--kind", "commercial_sheet", "--source", "contract", "--document", str(tmp_path / "a.pdf"))
    (tmp_path / "a.pdf").write_bytes(b"a")
    add = ("evidence", "add", "--evidence", folder, "--json")
    first = json.loads(capienza(*add, *sheet, "--scope", "offer=a", "--claim", "ram_bytes=128 GiB").out)["record"]["id"]
    shown = capienza(*add, "--kind", "invalidates", "--withdraw", first[:12], *words)
    assert shown.code == 0
    assert json.loads(shown.out)["record"]["inputs"] == [first]
    used = capienza(*add, *sheet, "--scope", "offer=b", "--claim", "gpu_link=nvlink", "--input", first[:9])
    assert json.loads(used.out)["record"]["inputs"] == [first]
    for option in (
        ("--kind", "invalidates", "--withdraw", "0" * 8, *words),
        (*sheet, "--scope", "offer=b", "--claim", "gpu_link=pcie", "--input", "0" * 8),
    ):
        missing = capienza("evidence", "add", "--evidence", folder, *option)
        assert missing.code == 3
        assert "no record has an id that begins with 00000000" in missing.err
    short = capienza("evidence", "add", "--evidence", folder, "--kind", "invalidates", "--withdraw", first[:7], *words)
    assert short.code == 3
    assert "at least 8" in short.err
