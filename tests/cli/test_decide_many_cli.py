"""Several cards over the same offers: what each comes to alone, in the order given, by one process or by some."""

import json
import pickle
import shutil

import msgspec
import pytest

from capienza.api import decide, decide_many
from capienza.api import many as module
from capienza.decide.summary import BRIEF_PLACES, summarise
from capienza.errors import InputErrors

CARDS = ("llama-3.1-8b", "plain-7b", "gemma-3-27b")


@pytest.fixture(params=[10**9, 0], ids=["one process", "processes"])
def processes(request, monkeypatch):
    monkeypatch.setattr(module, "WORTH_PROCESSES_BYTES", request.param)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)


@pytest.fixture
def cards(examples):
    return [examples / "cards" / f"{name}.yaml" for name in CARDS]


def test_each_card_gets_its_own_answer(processes, examples, cards):
    offers = [examples / "offers" / "market.yaml"]
    answers = decide_many(cards, offers)
    assert [answer.card for answer in answers] == list(CARDS)
    for card, answer in zip(cards, answers, strict=True):
        decided = decide(card, offers)
        alone = summarise(decided.card, [one.decision for one in decided.judged])
        assert answer.counts == alone.counts
        assert answer.notes == (*decided.card_findings, *alone.shortlist.notes)
        assert answer.findings.counts == decided.findings.counts
        for short, full in zip(answer.lists, alone.shortlist.lists, strict=True):
            assert short.selected == full.selected[:BRIEF_PLACES]
            first = [msgspec.structs.replace(place, next=None) for place in full.to_confirm[:BRIEF_PLACES]]
            assert list(short.to_confirm) == first


def test_bare_dates_are_read_in_the_zone_of_each_card(examples, tmp_path):
    text = (examples / "cards" / "plain-7b.yaml").read_text()
    names = []
    for zone in ("Pacific/Auckland", "America/Los_Angeles"):
        path = tmp_path / f"{zone.rpartition('/')[2]}.yaml"
        path.write_text(f"{text}\ncalendar: {{timezone: {zone}, start: 2026-12-07, deadline: 2026-12-12}}\n")
        names.append(path)
    offers = tmp_path / "offers.yaml"
    offers.write_text(
        "- {id: a, provider: p, gpu: L4, cards: 1, days: 1, total: 5 USD, starts: 2026-12-12,"
        " document: {id: d, retrieved: 2026-11-29}}\n"
    )
    answers = decide_many(names, [offers])
    alone = []
    for path in names:
        decided = decide(path, [offers])
        alone.append(summarise(decided.card, [one.decision for one in decided.judged]).counts)
    assert [answer.counts for answer in answers] == alone


def test_a_table_and_a_document(capienza, examples, cards):
    offers = examples / "offers" / "two-cards.yaml"
    shown = capienza("decide", *cards, "--offers", offers)
    assert shown.code == 11
    assert all(name in shown.out for name in CARDS)
    assert "Decisioni: 3 schede" in capienza("decide", *cards, "--offers", offers, "--lang", "it").out
    document = json.loads(capienza("decide", *cards, "--offers", offers, "--json").out)
    assert document["schema"] == "capienza.decide-many/1"
    assert [one["card"]["name"] for one in document["cards"]] == list(CARDS)
    assert all(sum(one["counts"].values()) == 2 for one in document["cards"])


@pytest.mark.parametrize(
    "more", [(), ("--why", "rtx4090-1x3d", "memory"), ("--out", "a.html"), ("--keep", "--evidence", "e")]
)
def test_what_is_about_one_card_takes_one(capienza, examples, cards, more):
    offers = ("--offers", examples / "offers" / "two-cards.yaml") if more else ()
    assert capienza("decide", *cards, *offers, *more).code == 2


def test_the_exit_code_is_the_highest(capienza, examples, cards, tmp_path):
    offers = tmp_path / "offers.yaml"
    offers.write_text(
        "- {id: a, provider: p, gpu: T4, cards: 1, days: 1, total: 5 USD, document: {id: d, retrieved: 2026-11-29}}\n"
    )
    codes = [capienza("decide", card, "--offers", offers).code for card in cards]
    assert 11 in codes
    assert capienza("decide", *cards, "--offers", offers).code == max(codes)


def test_problems_of_a_file_come_out_whole(processes, cards, tmp_path, capienza):
    offers = tmp_path / "offers.csv"
    offers.write_text("id,provider,gpu,cards,days,total\na,p,L4,-1,1,5 USD\nb,p,L4,1,1,-5 USD\n")
    with pytest.raises(InputErrors) as refused:
        decide_many(cards, [offers])
    assert len(refused.value.problems) == 2
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    shown = capienza("decide", *cards, "--offers", offers)
    assert (shown.code, shown.out) == (3, "")
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert capienza("decide", *cards, "--offers", offers).code == 4


def test_what_is_odd_about_a_card_or_the_records_is_said(capienza, examples, tmp_path):
    text = (examples / "cards" / "llama-3.1-8b.yaml").read_text()
    config = (examples / "configs").resolve()
    small = tmp_path / "small.yaml"
    host = "host: {ram: 1 GiB, storage: 1 GB, interconnect: none, managed_application: none}"
    lines = [line for line in text.splitlines() if not line.startswith(("host:", "#"))]
    small.write_text("\n".join([*lines, host]).replace("../configs", str(config)) + "\n")
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    (evidence / "notes.txt").write_text("mine")
    offers = ("--offers", examples / "offers" / "two-cards.yaml")
    alone = capienza("decide", small, *offers)
    assert "the card states" in alone.out
    both = capienza("decide", small, small, *offers)
    assert "the card states" in both.out
    for cards in ([small], [small, small]):
        assert "notes.txt" in capienza("decide", *cards, *offers, "--evidence", evidence).out
