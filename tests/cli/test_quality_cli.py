"""`quality` on the command line: from a card and its corpus to a record that a decision reads."""

import json
import sys

import pytest
from quality_sums import ANSWER, CARD

from capienza.card.quality_fields import ALARM_KINDS, KINDS
from capienza.cli.quality import ARMS
from capienza.quality import plan as planned


@pytest.fixture
def campaign(tmp_path, capienza, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "card.yaml").write_text(CARD)
    (tmp_path / "answer.py").write_text(ANSWER)
    rows = ({"id": str(n), "prompt": f"{n} + 1 =", "expected": n + 1} for n in range(300))
    (tmp_path / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


def _frozen(capienza, campaign):
    frozen = capienza("quality", "freeze", campaign / "card.yaml", "--evidence", campaign / "ev")
    assert (frozen.code, frozen.err) == (0, "")
    return campaign / "quality-plan.json"


def _run(capienza, campaign, arm, wrong):
    plan = campaign / "quality-plan.json"
    found = capienza("quality", "run", plan, "--arm", arm, "--", sys.executable, campaign / "answer.py", str(wrong))
    assert (found.code, found.err) == (0, "")
    return campaign / f"quality-plan.{arm}.jsonl"


def _compare(capienza, campaign, *options, lang="en"):
    files = (campaign / f"quality-plan.{arm}.jsonl" for arm in ("reference", "candidate"))
    given = ("--evidence", campaign / "ev", "--lang", lang, *options)
    return capienza("quality", "compare", campaign / "quality-plan.json", *files, *given)


@pytest.mark.parametrize("wrong, code, word", [(1, 0, "satisfied"), (14, 10, "unknown"), (60, 12, "violated")])
def test_from_a_card_to_a_record(capienza, campaign, wrong, code, word):
    _frozen(capienza, campaign)
    arms = {"reference": 0, "reference_again": 0, "candidate": wrong, "harmed": 150}
    files = {arm: _run(capienza, campaign, arm, count) for arm, count in arms.items()}
    controls = ("--again", files["reference_again"], "--harmed", files["harmed"])
    found = _compare(capienza, campaign, *controls, "--json")
    shown = json.loads(found.out)
    assert (found.code, shown["words"]) == (code, {"numeric": word})
    assert (shown["results"][0]["loss"], shown["doubts"]) == (wrong, [])
    record = json.loads((campaign / "ev" / f"{shown['record']}.json").read_text())
    stated = {claim["quantity"]: claim["value"] for claim in record["claims"]}
    controlled = {"control.reference_again": "as_expected", "control.harmed": "as_expected"}
    assert stated == {"numeric": word, **controlled}
    figure = campaign / "figure.svg"
    italian = _compare(capienza, campaign, *controls, "--figure", figure, lang="it")
    assert "controllo danneggiato" in figure.read_text()
    assert italian.code == code
    assert "Qualità: sums" in italian.out
    assert "può perdere" in italian.out


def test_a_figure_in_no_known_form_is_refused_before_anything_is_kept(capienza, campaign):
    _frozen(capienza, campaign)
    for arm in ("reference", "candidate"):
        _run(capienza, campaign, arm, 0)
    found = _compare(capienza, campaign, "--figure", campaign / "figure.pdf")
    assert found.code == 2
    assert "a figure ends in .svg, .png, .html" in found.err
    assert len(list((campaign / "ev").iterdir())) == 1


def test_without_controls_nothing_counts(capienza, campaign):
    _frozen(capienza, campaign)
    for arm in ("reference", "candidate"):
        _run(capienza, campaign, arm, 0)
    found = _compare(capienza, campaign)
    assert found.code == 10
    assert "insufficient" in found.out
    assert "the control harmed is missing" in found.out


def test_a_plan_is_looked_at_once(capienza, campaign):
    _frozen(capienza, campaign)
    arms = {"reference": 0, "reference_again": 0, "candidate": 30, "harmed": 150}
    files = {arm: _run(capienza, campaign, arm, count) for arm, count in arms.items()}
    controls = ("--again", files["reference_again"], "--harmed", files["harmed"])
    assert _compare(capienza, campaign, *controls).code == 12
    files["candidate"].unlink()
    _run(capienza, campaign, "candidate", 0)
    found = _compare(capienza, campaign, *controls)
    assert found.code == 10
    assert "a plan is looked at once" in found.out


def test_a_plan_that_was_edited_is_refused(capienza, campaign):
    plan = _frozen(capienza, campaign)
    plan.write_text(plan.read_text().replace('"max_regression":"0.05"', '"max_regression":"0.50"'))
    found = capienza("quality", "run", plan, "--arm", "candidate", "--", "true")
    assert found.code == 20
    assert "changed after it was frozen" in found.err


def test_a_plan_is_never_replaced(capienza, campaign):
    plan = _frozen(capienza, campaign)
    before = plan.read_bytes()
    again = capienza("quality", "freeze", campaign / "card.yaml", "--evidence", campaign / "ev")
    assert again.code == 3
    assert plan.read_bytes() == before


def test_a_corpus_that_changed_is_noticed(capienza, campaign):
    plan = _frozen(capienza, campaign)
    with (campaign / "corpus.jsonl").open("a") as file:
        file.write('{"id": "more", "prompt": "?", "expected": 1}\n')
    found = capienza("quality", "run", plan, "--arm", "candidate", "--", "true")
    assert found.code == 20
    assert "the plan froze" in found.err


@pytest.mark.parametrize(
    "old, new, place, words",
    [
        ("  reference: {weights: bf16}\n", "", "quality", "quality.reference"),
        ("  harmed: {weights: two bits}\n", "", "quality", "quality.harmed"),
        ("  decoding: {max_tokens: 16}\n", "", "quality", "quality.decoding.max_tokens"),
        ("{weights: bf16}", "{weights: gptq-int4-g128}", "quality.reference", "is the candidate itself"),
        ("max_regression: 0.05, ", "", "quality.metrics[0].name", "has no threshold"),
        ("name: numeric", "name: wit", "quality.metrics[0].name", "does not say what is counted"),
        ("name: numeric", "name: kl", "quality.metrics", "an alarm admits nothing"),
        ("reason:", "pattern: x, reason:", "quality.metrics[0].pattern", "belongs to regex"),
        ("name: numeric", "name: regex", "quality.metrics[0].name", "needs a pattern"),
        ("name: numeric", "name: regex, pattern: '('", "quality.metrics[0].pattern", "no regular expression"),
    ],
)
def test_what_a_plan_lacks_is_said_at_the_cards_line(capienza, campaign, old, new, place, words):
    card = campaign / "card.yaml"
    card.write_text(CARD.replace(old, new))
    found = capienza("quality", "freeze", card, "--evidence", campaign / "ev")
    assert found.code == 3
    assert f"{card}:" in found.err
    assert place in found.err
    assert words in found.err
    assert not (campaign / "ev").exists()
    assert not (campaign / "quality-plan.json").exists()


def test_a_plan_away_from_its_corpus_asks_for_it(capienza, campaign):
    _frozen(capienza, campaign)
    moved = campaign / "elsewhere" / "plan.json"
    moved.parent.mkdir()
    (campaign / "quality-plan.json").rename(moved)
    found = capienza("quality", "run", moved, "--arm", "candidate", "--", "true")
    assert (found.code, "name where it lies with --corpus" in found.err) == (4, True)
    given = ("--corpus", campaign / "corpus.jsonl", "--", sys.executable, campaign / "answer.py", "0")
    assert capienza("quality", "run", moved, "--arm", "candidate", *given).code == 0


def test_states_and_shares_of_an_italian_comparison_are_italian(capienza, campaign):
    _frozen(capienza, campaign)
    arms = {"reference": 0, "reference_again": 60, "candidate": 0, "harmed": 150}
    files = {arm: _run(capienza, campaign, arm, count) for arm, count in arms.items()}
    controls = ("--again", files["reference_again"], "--harmed", files["harmed"])
    found = _compare(capienza, campaign, *controls, lang="it")
    assert "il riferimento contro sé stesso è violato" in found.out
    assert "frequenza 0,025" in found.out
    assert "senza risposta" in found.out


def test_lint_says_what_the_corpus_cannot_show(capienza, campaign):
    card = campaign / "card.yaml"
    card.write_text(CARD.replace("0.05", "0.01"))
    found = capienza("quality", "lint", card)
    assert found.code == 10
    assert "this corpus cannot conclude at a margin of 0.01" in found.out
    assert "5,360 are needed" in found.out or "5360 are needed" in found.out
    assert capienza("quality", "lint", campaign / "card.yaml", "--json").code == 10


def test_the_words_of_both_floors_agree():
    assert ARMS == planned.ARMS
    assert set(KINDS) == {*planned.BINARY, *planned.MEASURED, *planned.ALARMS}
    assert ALARM_KINDS == planned.ALARMS
