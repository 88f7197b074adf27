"""From outputs to a decision on the command line: what keeps a quality result from counting, in both languages."""

import datetime
import json
import shutil
import sys
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from quality_sums import ANSWER
from quality_sums import CARD as SUMS

from capienza.evidence.folder import read_folder
from capienza.evidence.record import Record
from capienza.evidence.store import seal, write_record

CARD = SUMS.replace("id: example/sums", "path: model")
WRONG = {"reference": 0, "reference_again": 0, "candidate": 1, "harmed": 90}


@pytest.fixture
def campaign(tmp_path, examples):
    (tmp_path / "card.yaml").write_text(CARD)
    (tmp_path / "model").mkdir()
    shutil.copy(examples / "configs" / "meta-llama--Llama-3.1-8B" / "config.json", tmp_path / "model")
    (tmp_path / "answer.py").write_text(ANSWER)
    (tmp_path / "offers.yaml").write_text("- {id: a, provider: p, gpu: L4, cards: 1, days: 1, total: 5 USD}\n")
    rows = ({"id": str(n), "prompt": f"{n} + 1 =", "expected": n + 1} for n in range(300))
    (tmp_path / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


def _freeze(capienza, campaign):
    frozen = capienza("quality", "freeze", campaign / "card.yaml", "--evidence", campaign / "ev")
    assert (frozen.code, frozen.err) == (0, "")


def _collect(capienza, campaign, *arms):
    for arm in arms or WRONG:
        command = (sys.executable, campaign / "answer.py", str(WRONG[arm]))
        found = capienza("quality", "run", campaign / "quality-plan.json", "--arm", arm, "--", *command)
        assert (found.code, found.err) == (0, "")


def _compare(capienza, campaign, folder="ev"):
    file = {arm: campaign / f"quality-plan.{arm}.jsonl" for arm in WRONG}
    controls = ("--again", file["reference_again"], "--harmed", file["harmed"])
    arms = (file["reference"], file["candidate"])
    return capienza(
        "quality", "compare", campaign / "quality-plan.json", *arms, *controls, "--evidence", campaign / folder
    )


def _decided(capienza, campaign, lang="en", folder="ev"):
    files = ("--offers", campaign / "offers.yaml", "--evidence", campaign / folder)
    return capienza("decide", campaign / "card.yaml", *files, "--why", "a", "quality", "--lang", lang)


def _state(capienza, campaign):
    files = ("--offers", campaign / "offers.yaml", "--evidence", campaign / "ev", "--json")
    found = json.loads(capienza("decide", campaign / "card.yaml", *files, "--why", "a", "quality").out)
    return found["state"], {reason["code"] for reason in found["reasons"]}


def _records(folder: Path, kind: str) -> list[Record]:
    return [record for record in read_folder(folder) if record.kind == kind]


def _replace(folder: Path, old: Record, **changes: object) -> Record:
    """Another record in the place of one, as somebody who may write the folder can put it there."""
    (folder / f"{old.id}.json").unlink()
    return _put(folder, msgspec.structs.replace(old, id="", sha256="", **changes))


def _put(folder: Path, record: Record) -> Record:
    sealed = seal(record)
    write_record(sealed, folder)
    return sealed


def _cite(folder: Path, old: Record, new: Record) -> None:
    (result,) = _records(folder, "quality_result")
    _replace(folder, result, inputs=tuple(new.id if each == old.id else each for each in result.inputs))


def _of_candidate(folder: Path) -> Record:
    return next(
        record
        for record in _records(folder, "outputs")
        if any((claim.quantity, claim.value) == ("arm", "candidate") for claim in record.claims)
    )


def test_outputs_are_records_and_the_decision_counts_the_result(capienza, campaign):
    _freeze(capienza, campaign)
    _collect(capienza, campaign)
    assert _compare(capienza, campaign).code == 0
    (plan,), outputs = _records(campaign / "ev", "plan"), _records(campaign / "ev", "outputs")
    (result,) = _records(campaign / "ev", "quality_result")
    assert len(outputs) == 4
    assert {record.id for record in outputs} | {plan.id} <= set(result.inputs)
    for record in outputs:
        stated = {claim.quantity: claim.value for claim in record.claims}
        assert plan.id in record.inputs
        assert stated["answered"] == 300
        assert plan.date <= datetime.datetime.fromisoformat(str(stated["begun"])) <= record.date + datetime.timedelta(1)
    assert {record.scope.weight_format for record in outputs} == {"gptq-int4-g128", "bf16", "two bits"}
    assert _state(capienza, campaign)[0] == "admissible"
    assert capienza("evidence", "verify", "--evidence", campaign / "ev").code == 0


def _outputs_before_the_plan(campaign):
    record = _of_candidate(campaign)
    early = tuple(
        msgspec.structs.replace(claim, value="2020-01-01T00:00:00+00:00") if claim.quantity == "begun" else claim
        for claim in record.claims
    )
    _cite(campaign, record, _replace(campaign, record, claims=early))


def _outputs_without_a_date(campaign):
    record = _of_candidate(campaign)
    claims = tuple(claim for claim in record.claims if claim.quantity != "begun")
    _cite(campaign, record, _replace(campaign, record, claims=claims))


def _outputs_of_another_plan(campaign):
    record = _of_candidate(campaign)
    inputs = tuple(each for each in record.inputs if each.startswith("sha256:"))
    _cite(campaign, record, _replace(campaign, record, inputs=inputs))


def _another_corpus(campaign):
    record = _of_candidate(campaign)
    subject = (msgspec.structs.replace(record.subject[0], sha256="f" * 64), *record.subject[1:])
    _cite(campaign, record, _replace(campaign, record, subject=subject))


def _a_reused_plan(campaign):
    record = _of_candidate(campaign)
    inputs = tuple("sha256:" + "e" * 64 if each.startswith("sha256:") else each for each in record.inputs)
    _put(campaign, msgspec.structs.replace(record, id="", sha256="", inputs=inputs))


def _outputs_withdrawn(campaign):
    record = _of_candidate(campaign)
    producer, notes = {"author": "A. Bianchi"}, ("the machine had faulty memory",)
    invalidates = Record(
        kind="invalidates", version="1", date=record.date, inputs=(record.id,), producer=producer, notes=notes
    )
    _put(campaign, invalidates)


def _outputs_gone(campaign):
    (campaign / f"{_of_candidate(campaign).id}.json").unlink()


def _no_harmed_control(campaign):
    (result,) = _records(campaign, "quality_result")
    _replace(campaign, result, claims=tuple(claim for claim in result.claims if claim.quantity != "control.harmed"))


@pytest.mark.parametrize(
    "attack, code, english, italian",
    [
        (_outputs_before_the_plan, "decide.outputs-before-plan", "were begun on", "sono cominciate il"),
        (
            _outputs_without_a_date,
            "decide.outputs-before-plan",
            "nothing shows that this was after",
            "nulla mostra che",
        ),
        (
            _outputs_of_another_plan,
            "decide.outputs-of-other-plan",
            "not collected under plan",
            "non sono state raccolte",
        ),
        (_another_corpus, "decide.outputs-other-corpus", "answer another corpus.jsonl", "rispondono a un altro"),
        (_a_reused_plan, "decide.plan-reused", "used for 2 different outputs", "usato per 2 uscite diverse"),
        (_outputs_withdrawn, "evidence.withdrawn", "was withdrawn", "ritirat"),
        (_outputs_gone, "evidence.reference-missing", "which is not in the set", "che non è nell"),
        (_no_harmed_control, "decide.quality-without-control", "does not show that control.harmed", "control.harmed"),
    ],
)
def test_what_keeps_a_result_from_counting(capienza, campaign, attack, code, english, italian):
    _freeze(capienza, campaign)
    _collect(capienza, campaign)
    assert _compare(capienza, campaign).code == 0
    attack(campaign / "ev")
    state, codes = _state(capienza, campaign)
    assert state == "to_confirm"
    assert code in codes
    assert english in " ".join(_decided(capienza, campaign).out.split())
    assert italian in " ".join(_decided(capienza, campaign, "it").out.split())


def test_an_edited_plan_is_seen_by_every_command(capienza, campaign):
    _freeze(capienza, campaign)
    _collect(capienza, campaign)
    plan = campaign / "quality-plan.json"
    plan.write_text(plan.read_text().replace('"max_regression":"0.05"', '"max_regression":"0.50"'))
    for found in (
        capienza("quality", "lint", plan),
        capienza("quality", "run", plan, "--arm", "candidate", "--", "true"),
        _compare(capienza, campaign),
    ):
        assert found.code == 20
        assert "changed after it was frozen" in found.err
    assert not _records(campaign / "ev", "quality_result")


def test_an_edited_plan_that_was_given_a_new_id_is_another_plan(capienza, campaign):
    from capienza.quality.plan import frozen, read_plan, write_plan

    _freeze(capienza, campaign)
    _collect(capienza, campaign)
    path = campaign / "quality-plan.json"
    plan = read_plan(str(path))
    wider = tuple(msgspec.structs.replace(metric, max_regression=Decimal("0.5")) for metric in plan.metrics)
    write_plan(frozen(msgspec.structs.replace(plan, metrics=wider)), path)
    found = _compare(capienza, campaign)
    assert found.code == 3
    assert "were made under plan" in found.err


@pytest.mark.parametrize(
    "lines, words",
    [
        ('{"id": "1", "prompt": "?", "expected": 1}\n' * 2, "stands on line 1 already"),
        ("", "the corpus holds no item"),
        ('{"id": "1", "prompt": "?", "expected": NaN}\n', "NaN"),
    ],
)
def test_a_bad_corpus_is_refused_before_anything_is_written(capienza, campaign, lines, words):
    (campaign / "corpus.jsonl").write_text(lines)
    found = capienza("quality", "freeze", campaign / "card.yaml", "--evidence", campaign / "ev")
    assert found.code == 3
    assert words in found.err
    assert not (campaign / "quality-plan.json").exists()
    assert not (campaign / "ev").exists()


def test_a_candidate_that_answered_in_part_is_never_admitted_by_it(capienza, campaign):
    _freeze(capienza, campaign)
    _collect(capienza, campaign)
    path = campaign / "quality-plan.candidate.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:200]))
    found = _compare(capienza, campaign)
    assert found.code == 12
    assert "101" in found.out


def test_no_log_probability_that_is_no_number_is_kept(capienza, campaign):
    _freeze(capienza, campaign)
    answer = campaign / "answer.py"
    answer.write_text(ANSWER.replace('"output":', '"logprob": float("nan"), "output":'))
    plan, command = campaign / "quality-plan.json", (sys.executable, answer, "0")
    found = capienza("quality", "run", plan, "--arm", "candidate", "--", *command)
    assert found.code == 3
    assert "NaN" in found.err
    assert (campaign / "quality-plan.candidate.jsonl").read_text().count("\n") == 1
