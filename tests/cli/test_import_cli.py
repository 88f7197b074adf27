"""`offers import` on the command line: forms of others, what is said of them, and how other commands lead there."""

import json

import pytest

GPUHUNT = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,"
    "provider_data\n"
    "one,eu-1,2.0,16,128,1,H100,80,False,100,nvidia,,x86,{}\n"
    "two,eu-1,-2.0,16,128,1,H100,80,False,100,nvidia,,x86,{}\n"
)


@pytest.fixture
def price_list(tmp_path):
    path = tmp_path / "it's a list.csv"
    path.write_text(GPUHUNT)
    return path


def test_a_price_list_becomes_offers_that_can_be_decided(capienza, examples, tmp_path, price_list):
    out = tmp_path / "out.jsonl"
    done = capienza("offers", "import", price_list, "--out", out, "--provider", "acme", "--retrieved", "2026-11-28")
    assert (done.code, done.err) == (0, "")
    assert "Read as gpuhunt; offers written: 1." in done.out
    assert "left out: price is -2.0, and cannot be below zero" in done.out
    assert ":3:10: price)" in done.out
    decided = capienza("decide", examples / "cards" / "llama-3.1-8b.yaml", "--offers", out)
    assert decided.code == 10
    assert "gpuhunt/acme/one/eu-1" in decided.out


def test_the_report_of_an_import_is_a_document(capienza, tmp_path, price_list):
    done = capienza("offers", "import", price_list, "--out", tmp_path / "out.jsonl", "--json")
    document = json.loads(done.out)
    assert (document["schema"], document["form"], document["offers"]) == (
        "capienza.offers-import/1", "gpuhunt", 1,
    )  # fmt: skip
    counts = document["findings"]["counts"]
    assert counts["offers.undated"] == counts["import.left-out.import.negative"] == 1
    assert "lista" not in done.out
    italian = capienza("offers", "import", price_list, "--out", tmp_path / "out.jsonl", "--lang", "it")
    assert "offerte scritte: 1" in italian.out


def test_many_findings_of_one_kind_are_counted(capienza, tmp_path):
    path = tmp_path / "list.csv"
    head, row, _ = GPUHUNT.splitlines()
    path.write_text("\n".join([head, *[row.replace("one", f"i{number}") for number in range(50)]]))
    done = capienza("offers", "import", path, "--out", tmp_path / "out.jsonl")
    assert done.out.count("H100 may be any of") == 3
    assert "... and 47 more like it" in done.out


@pytest.mark.parametrize("command", ["list", "check", "decide"])
def test_a_list_of_others_is_refused_with_the_command_that_converts_it(capienza, examples, price_list, command):
    words = ("offers", command) if command != "decide" else ("decide", examples / "cards" / "plain-7b.yaml", "--offers")
    shown = capienza(*words, price_list)
    assert shown.code == 3
    assert "gpuhunt" in shown.err
    assert "capienza offers import '" in shown.err
    assert "it'\"'\"'s a list.jsonl'" in shown.err
    assert len(shown.err.splitlines()) == 2


def test_json_of_others_is_refused_alike(capienza, tmp_path):
    path = tmp_path / "answer.json"
    path.write_text('[{"id": 1, "gpu_name": "L4", "num_gpus": 1, "dph_total": 0.3}]')
    shown = capienza("offers", "check", path)
    assert shown.code == 3
    assert "Vast.ai" in shown.err


@pytest.mark.parametrize(
    "options, text",
    [
        (["--from", "excel"], "gpuhunt, skypilot, vast, runpod, lambda, aws-capacity-blocks"),
        (["--retrieved", "28/11/2026"], "year-month-day"),
        (["--retrieved", "2026-11-28T10:00"], "year-month-day"),
        (["--fresh-for", "7 days"], "--retrieved"),
        (["--retrieved", "2026-11-28", "--fresh-for", "a week"], "hours or days"),
        (["--retrieved", "2026-11-28", "--fresh-for", "0 days"], "hours or days"),
    ],
)
def test_words_that_are_not_understood(capienza, tmp_path, price_list, options, text):
    shown = capienza("offers", "import", price_list, "--out", tmp_path / "out.jsonl", *options)
    assert shown.code == 2
    assert text in shown.err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_form_that_is_not_that_of_the_file_is_said(capienza, tmp_path, price_list):
    for form, text in (("skypilot", "AcceleratorName"), ("vast", "it is gpuhunt")):
        shown = capienza("offers", "import", price_list, "--out", tmp_path / "out.jsonl", "--from", form)
        assert shown.code == 3
        assert text in shown.err


def test_words_for_a_form_of_others_do_not_go_with_ours(capienza, examples, tmp_path):
    own = examples / "offers" / "small.csv"
    shown = capienza("offers", "import", own, "--out", tmp_path / "out.jsonl", "--retrieved", "2026-11-28")
    assert shown.code == 2
    assert "--retrieved" in shown.err


def test_a_card_that_says_how_old_a_price_may_be(capienza, examples, tmp_path):
    offers = tmp_path / "offers.yaml"
    offers.write_text(
        "- {id: a, provider: p, gpu: RTX 4090, memory: 24 GB, cards: 1, days: 3, total: 47.14 USD, "
        "document: {id: sheet, retrieved: 2020-01-01}}\n"
    )
    text = (examples / "cards" / "plain-7b.yaml").read_text()
    for age, said in (("7 days", True), (None, False)):
        card = tmp_path / "card.yaml"
        budget = "budget: {cap: 300 USD" + (f", price_age: {age}" if age else "") + "}\n"
        kept = [line for line in text.splitlines(keepends=True) if not line.startswith("budget:")]
        card.write_text("".join(kept) + budget)
        shown = capienza("decide", card, "--offers", offers, "--why", "a", "budget")
        assert ("was read on 2020-01-01" in shown.out) is said
    card.write_text("".join(kept) + "budget: {cap: 300 USD, price_age: 7}\n")
    shown = capienza("card", "check", card)
    assert shown.code == 3
    assert "Did you mean 7 days?" in shown.err
