"""`plan` on the command line: exit codes, steps, moments and bills, for people and in JSON; what people get wrong."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest

from capienza.api import plan
from capienza.evidence.record import Claim, Record, Scope
from capienza.evidence.store import seal, write_record

CARD = """capienza: 1
name: tuning
model: {{path: {model}, revision: mine}}
task: inference
engine: {{name: vllm, version: "0.11.2"}}
tokens: {{required: 4096}}
concurrency: 4
placement: {{gpus: 1}}
host: {{storage: 120 GB, egress: 50 GB}}
budget: {{cap: 300 USD}}
calendar: {{timezone: Europe/Rome, start: 2036-12-07, deadline: 2036-12-12, {steps}}}
"""
HYPOTHETICAL = "steps: [{name: run, hours: 30}]"
MEASURED = "steps: [{name: run, hours: 30, basis: measured}]"
PILOT = "steps: [{name: run, work: 36e6 tokens}]"
OFFERS = """
- id: box
  provider: p
  gpu: L4
  cards: 1
  days: 3
  total: 90 USD
  starts: 2036-12-07
  tax_included: false
  tax_percent: 22
  fees: [{kind: egress, amount: 0.10 USD, unit: per_gb}]
  document: {id: sheet, retrieved: 2026-11-29}
- id: clock
  provider: p
  gpu: L4
  cards: 1
  hourly: 11 USD
  per: gpu
  billing_step_s: 60
  starts: 2036-12-07
  tax_included: true
  document: {id: page, retrieved: 2026-11-29}
"""
SCOPE = Scope(
    model="Qwen--Qwen3-8B",
    revision="mine",
    task="inference",
    weight_format="bf16",
    kv_format="bf16",
    engine="vllm",
    engine_version="0.11.2",
    gpu="l4",
    gpus=1,
    tokens=4096,
    concurrency=4,
    configuration="defaults",
)


@pytest.fixture
def files(examples, tmp_path):
    def write(steps, offers=OFFERS, **changed):
        text = CARD.format(model=examples / "configs" / "Qwen--Qwen3-8B", steps=steps)
        for name, line in changed.items():
            text = "\n".join(line if row.startswith(f"{name}:") else row for row in text.splitlines()) + "\n"
        (tmp_path / "card.yaml").write_text(text)
        (tmp_path / "offers.yaml").write_text(offers)
        return tmp_path / "card.yaml", "--offers", tmp_path / "offers.yaml"

    return write


@pytest.fixture
def evidence(tmp_path):
    rates = (Claim(quantity="tokens_per_second", value=str(rate), unit="tokens/s") for rate in (500, 400))
    run = seal(
        Record(
            kind="measurement",
            version="1",
            date=datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC),
            scope=SCOPE,
            method="measure",
            claims=tuple(rates),
        )
    )
    write_record(run, tmp_path / "evidence")
    return run, tmp_path / "evidence"


@pytest.mark.parametrize(
    "steps, code, word",
    [
        (HYPOTHETICAL, 10, "to confirm"),
        (MEASURED, 0, "admissible"),
        ("steps: [{name: run, hours: 300, basis: measured}]", 11, "exclude"),
        ("steps: [{name: run, hours: 300}]", 10, "at most 144 settle it"),
        ("daily_hours: 8", 10, "The card states no steps."),
        (PILOT, 10, "no measured run in the evidence"),
    ],
)
def test_the_calendar_alone(capienza, files, steps, code, word):
    shown = capienza("plan", files(steps)[0])
    assert (shown.code, shown.err) == (code, "")
    assert word in shown.out


def test_a_card_without_a_calendar_says_so(capienza, files):
    for line, words in (("calendar: none", "the card says calendar: none"), ("", "does not state calendar")):
        shown = capienza("plan", files(MEASURED, calendar=line)[0])
        assert shown.code == 10
        assert words in shown.out


def test_moments_are_shown_on_the_clock_of_the_card(capienza, files):
    shown = capienza("plan", files(MEASURED)[0])
    for moment in ("7 Dec 2036, 00:00", "8 Dec 2036, 06:00", "13 Dec 2036, 00:00 (UTC+01:00)"):
        assert moment in shown.out


def test_offers_have_their_moments_bill_and_verdict(capienza, files):
    shown = capienza("plan", *files(MEASURED))
    assert shown.code == 0
    for text in ("90.00 USD", "outgoing traffic", "0.10 USD/GB x 50 GB", "22 % x 95.00 USD", "115.90 USD"):
        assert text in shown.out, text
    assert "11 USD/h x 1 GPU x 30 h" in shown.out
    document = json.loads(capienza("plan", *files(MEASURED), "--json").out)
    box, clock = document["offers"]
    assert (box["state"], clock["state"]) == ("admissible", "exclude")
    assert box["schedule"]["finish"] == "2036-12-08T05:00:00Z"
    assert (box["schedule"]["slack_hours"], box["least_hours"], box["planned_hours"]) == ("114", "30", "30")
    for one in (box, clock):
        planned = sum(Decimal(part["planned"]["amount"]) for part in one["cost"]["components"])
        assert planned == Decimal(one["cost"]["planned"]["amount"])
    assert [part["name"] for part in box["cost"]["components"]] == ["price", "fee.egress", "tax"]


def test_a_pilot_gives_the_hours_and_is_named(capienza, files, evidence):
    run, folder = evidence
    shown = capienza("plan", *files(PILOT), "--evidence", folder)
    assert shown.code == 0
    assert f"{run.id[:12]} (l4)" in shown.out
    document = json.loads(capienza("plan", *files(PILOT), "--evidence", folder, "--json").out)
    assert document["calendar"]["state"] == "admissible"
    assert [(one["least_hours"], one["planned_hours"]) for one in document["offers"]] == [("20", "25")] * 2
    assert run.id in {reference["id"] for one in document["offers"] for reference in one["evidence"]}


def test_a_pilot_on_one_gpu_says_nothing_of_another(capienza, files, evidence):
    offers = OFFERS.replace("id: clock\n  provider: p\n  gpu: L4", "id: clock\n  provider: p\n  gpu: A10")
    shown = capienza("plan", *files(PILOT, offers), "--evidence", evidence[1])
    assert "Steps on L4" in shown.out
    assert "Steps on A10" in shown.out
    assert "speaks of gpu l4; needed: a10" in shown.out


def test_one_cell_of_decide_shows_the_bill(capienza, files):
    card, *offers = files(MEASURED)
    shown = capienza("decide", card, *offers, "--why", "box", "budget")
    assert "22 % x 95.00 USD" in shown.out
    document = json.loads(capienza("decide", card, *offers, "--why", "box", "budget", "--json").out)
    assert [part["name"] for part in document["cost"]["components"]] == ["price", "fee.egress", "tax"]
    whole = json.loads(capienza("decide", card, *offers, "--json").out)
    assert whole["decisions"][0]["cost"] == document["cost"]
    assert "cost" not in json.loads(capienza("decide", card, *offers, "--why", "box", "memory", "--json").out)


def test_markdown_and_italian(capienza, files):
    shown = capienza("plan", *files(MEASURED), "--format", "md", "--lang", "it")
    assert "| traffico in uscita |" in shown.out
    assert shown.out.startswith("# ")


def test_the_function_takes_plain_values(files):
    card, _, offers = files(MEASURED)
    now = datetime.datetime(2036, 12, 12, tzinfo=datetime.UTC)
    planned = plan(card, [offers], now=now)
    assert [one.verdict.state for one in planned.offers] == ["exclude", "exclude"]
    assert plan(card, now=now).alone.schedule.start == now
    assert plan(card, now=now).offers is None


@pytest.mark.parametrize(
    "steps, key",
    [
        ("contingency: 1000 %", "calendar.contingency"),
        ("contingency: 20", "calendar.contingency"),
        ("contingency: -5 %", "calendar.contingency"),
        ("daily_hours: 25", "calendar.daily_hours"),
        ("daily_hours: 0", "calendar.daily_hours"),
        ("steps: [{name: a, hours: 0}]", "calendar.steps[0].hours"),
        ("steps: [{name: a, hours: -1}]", "calendar.steps[0].hours"),
        ("steps: [{name: a}]", "calendar.steps[0].name"),
        ("steps: [{name: a, work: 120e6}]", "calendar.steps[0].work"),
        ("steps: [{name: a, work: 0 tokens}]", "calendar.steps[0].work"),
        ("steps: [{name: a, work: 1.5 tokens}]", "calendar.steps[0].work"),
        ("steps: [{name: a, work: 9e99 tokens}]", "calendar.steps[0].work"),
        ("steps: [{name: a, hours: 1, record: abc}]", "calendar.steps[0].record"),
        ("steps: [{name: a, hours: 1, record: 12345678}]", "calendar.steps[0].record"),
        ("steps: [{name: a, hours: 1, record: abcdef12}]", "calendar.steps[0].record"),
        ("steps: [{name: a, work: 1 tokens, basis: documented}]", "calendar.steps[0].basis"),
        ("steps: [{name: a, hours: 1, at_least: {hours: 2, reason: x}}]", "calendar.steps[0].hours"),
        ("steps: [{name: a, hours: 3, at_least: {hours: 2}}]", "calendar.steps[0].at_least.reason"),
        ("steps: [{name: a, hours: 3, at_least: 2}]", "calendar.steps[0].at_least"),
    ],
)
def test_what_a_card_may_not_say(capienza, files, steps, key):
    shown = capienza("plan", files(steps)[0])
    assert (shown.code, shown.out) == (3, "")
    assert f"{key}:" in shown.err


@pytest.mark.parametrize(
    "change, key",
    [
        (("starts: 2036-12-07", "starts: 2036-12-07\n  ends: 2036-12-01"), "ends"),
        (("starts: 2036-12-07", "starts: 2036-12-07T09:00"), "starts"),
        (("total: 90 USD", "total: -90 USD"), "total"),
        (("total: 90 USD", "total: 90 USD\n  usable_hours: 73"), "usable_hours"),
        (("tax_percent: 22", "tax_percent: 122"), "tax_percent"),
        (("amount: 0.10 USD", "amount: -0.10 USD"), "fees"),
    ],
)
def test_what_an_offer_may_not_say(capienza, files, change, key):
    shown = capienza("plan", *files(MEASURED, OFFERS.replace(*change, 1)))
    assert (shown.code, shown.out) == (3, "")
    assert key in shown.err


def test_prices_in_two_currencies_are_never_added(capienza, files):
    offers = OFFERS.replace("amount: 0.10 USD", "amount: 0.10 EUR")
    shown = capienza("plan", *files(MEASURED, offers))
    assert "the fee egress is in EUR, the price in another currency" in shown.out
    other = capienza("plan", *files(MEASURED, OFFERS.replace(" USD", " EUR")))
    assert other.code == 10
    assert "no dated exchange rate is in the records" in other.out
