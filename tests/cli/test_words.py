"""The words that people type: counts, sizes, names of entries and GPUs, and what is said when they are off."""

import json
import subprocess
import sys

import pytest

PROGRAM = [sys.executable, "-c", "from capienza.cli.main import run; run()"]
TP_CARD = """\
capienza: 1
name: split
model: {{path: {model}}}
task: inference
placement: {{tensor_parallel: 2}}
"""


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (("--params", "7B"), "Did you mean 7000000000?"),
        (("--params", "7_000"), "Did you mean 7000?"),
        (("--params", "1e400"), "digits alone"),
        (("--params", "\uff17e9"), "digits alone"),
        (("--params", "7e9", "--reserve", "6"), "Did you mean 6 GB or 6 GiB?"),
        (("--params", "7e9", "--reserve", "6g"), "Did you mean 6 GB or 6 GiB?"),
        (("--params", "7e9", "--gpu", "L4"), "--gpu"),
        (("./model", "--params", "7e9"), "CARD|MODEL"),
        (("./model", "--bits", "4"), "only with --params: --bits"),
        (("./model", "--tokens", "8k"), "Did you mean 8000 or 8192?"),
        (("./model", "--concurrency", "1,000"), "Did you mean 1000?"),
    ],
)
def test_a_value_that_is_off_is_refused_with_what_was_meant(capienza, arguments, hint):
    shown = capienza("size", *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert hint in shown.err
    document = json.loads(capienza("size", *arguments, "--json").out)
    assert len(document["errors"]) == 1


@pytest.mark.parametrize(
    "line, english, italian",
    [
        ("tokens: {required: 32k}", "32000 or 32768?", "32000 o 32768?"),
        ("margin: {amount: 6}", "6 GB or 6 GiB?", "6 GB o 6 GiB?"),
        ("host: {ram: 6g}", "6 GB or 6 GiB?", "6 GB o 6 GiB?"),
    ],
)
def test_either_of_two_meanings_is_named_in_both_languages(capienza, tmp_path, line, english, italian):
    card, offers = tmp_path / "card.yaml", tmp_path / "offers.yaml"
    card.write_text(f"capienza: 1\nname: x\nmodel: {{parameters: 7e9, bits: 16}}\ntask: inference\n{line}\n")
    assert f"Did you mean {english}" in capienza("card", "check", card).err
    assert f"Intendevi {italian}" in capienza("card", "check", card, "--lang", "it").err
    offers.write_text("- {id: a, provider: p, gpu: L4, cards: 1, days: 1, total: 5 USD, host: {ram: 6}}\n")
    assert "Intendevi 6 GB o 6 GiB?" in capienza("offers", "check", offers, "--lang", "it").err


def test_a_count_may_be_written_with_an_exponent(capienza, examples):
    model = examples / "configs" / "Qwen--Qwen3-8B"
    short, long = (capienza("size", model, "--json", "--tokens", tokens).out for tokens in ("8000", "8e3"))
    assert short == long


@pytest.mark.parametrize("gpu", ["H100 SXMx8", "H100 SXM x 8", "8xH100 SXM", "8 x H100 SXM", "8x H100-SXM"])
def test_a_number_of_gpus_stands_before_or_after_the_name(capienza, examples, gpu):
    shown = capienza("size", examples / "configs" / "Qwen--Qwen3-8B", "--gpu", gpu, "--json")
    fit = json.loads(shown.out)["fit"]
    assert (fit["gpus"], fit["candidates"]) == (8, ["h100_sxm"])


def test_a_card_that_divides_the_layers_says_how_many_gpus_it_takes(capienza, examples, tmp_path):
    card = tmp_path / "card.yaml"
    card.write_text(TP_CARD.format(model=examples / "configs" / "Qwen--Qwen3-8B"))
    whole = json.loads(capienza("size", examples / "configs" / "Qwen--Qwen3-8B", "--json").out)
    document = json.loads(capienza("size", card, "--json").out)

    def weights(of):
        return [entry["amount"]["expected_bytes"] for entry in of["entries"] if entry["name"] == "weights"]

    assert len(weights(document)) == 2
    assert sum(weights(document)) == sum(weights(whole))


@pytest.mark.parametrize("name", ["kv_cache", "KV cache", "kv  CACHE", "cache KV"])
def test_an_entry_is_found_by_its_name_and_by_its_label(capienza, examples, name):
    shown = capienza(
        "size", examples / "configs" / "Qwen--Qwen3-8B", "--tokens", "100", "--explain", name, "--lang", "it"
    )
    assert shown.code == 0
    assert "Qwen3-8B: cache KV\n" in shown.out


def test_a_criterion_is_found_by_its_label(capienza, examples):
    arguments = (
        "decide",
        examples / "cards" / "plain-7b.yaml",
        "--offers",
        examples / "offers" / "two-cards.yaml",
        "--why",
    )
    by_name, by_label = (capienza(*arguments, "rtx4090-1x3d", word) for word in ("budget", "Budget and Calendar"))
    assert by_name.code == 10
    assert by_name == by_label


def test_a_folder_is_no_card(capienza, examples):
    shown = capienza("decide", examples / "configs" / "Qwen--Qwen3-8B")
    assert shown.code == 3
    assert "capienza card new" in shown.err


@pytest.mark.parametrize(
    "text, hint",
    [
        ("", "card new MODEL"),
        ("[]\n", "- {id: l4-a"),
        ("offers: []\n", "after a dash, such as - {id: l4-a"),
        ("- {id: a, provider: p, gpu: L4, cards: 1, days: 3, total: 220$}\n", "Did you mean 220 USD?"),
        (
            "- {id: a, provider: p, gpu: L4, cards: 1, days: 3, total: 220 USD, reported: 24564}\n",
            "Did you mean 24564 GB",
        ),
        ("- {id: a, provider: p, gpu: L4, cards: 1, days: 3, price: 220 USD}\n", "Did you mean total?"),
        ("- {id: a, provider: p, gpu: L4, count: 1, days: 3, total: 220 USD}\n", "Did you mean cards?"),
        ("- {id: a, provider: p, gpu: L4, cards: 1000001, days: 3}\n", "from 1 to 1000000"),
        ("- {id: a, provider: p, gpu: L4, cards: 1, days: 36501}\n", "at most 36500"),
        ("- {id: a, provider: p, gpu: L4, cards: 1, days: 3, fees: 3}\n", "- {kind: setup"),
        ("- {id: a, provider: p, gpu: L4, cards: 1, days: 3, host: 64}\n", "{ram: 64 GiB}"),
    ],
)
def test_an_offers_file_that_is_off_gets_a_hint_that_can_be_followed(capienza, tmp_path, text, hint):
    offers = tmp_path / "offers.yaml"
    offers.write_text(text)
    shown = capienza("offers", "check", offers)
    assert shown.code == 3
    assert hint in shown.err


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("plan", "a", "b"), "Argomento di troppo (b)"),
        (("plan", "a", "b", "c"), "Argomenti di troppo (b c)"),
        (("decide", "a", "--format", "x"), "'x' non è tra 'human', 'json', 'md'."),
    ],
)
def test_what_click_says_of_one_and_of_many_is_italian_too(capienza, arguments, text):
    shown = capienza(*arguments, "--lang", "it")
    assert shown.code == 2
    assert text in shown.err


def test_a_new_card_is_italian_in_every_line_and_fits_its_task(capienza, tmp_path):
    english = capienza("card", "new", "a/b", "--task", "fine-tuning").out
    italian = capienza("card", "new", "a/b", "--task", "fine-tuning", "--lang", "it").out
    comments = [line.rpartition("  # ")[2] for line in english.splitlines() if "  # " in line]
    assert not [comment for comment in comments if f"# {comment}\n" in italian]
    assert "Write none" not in italian
    assert "vllm" not in english
    told = capienza("card", "new", str(tmp_path / "later"))
    assert told.code == 0
    assert "nothing at" in told.err


@pytest.mark.parametrize("form", ["human", "json", "md"])
def test_a_reader_that_goes_away_ends_the_program_without_a_word(examples, form):
    model = examples / "configs" / "deepseek-ai--DeepSeek-V3"
    command = [*PROGRAM, "size", str(model), "--format", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(30) == 0


@pytest.mark.parametrize("words", [[], ["--json"], ["--format", "md"], ["--why", "rtx4090-1x3d", "memory"]])
def test_a_reader_that_goes_away_does_not_change_the_verdict(examples, words):
    card, offers = str(examples / "cards" / "plain-7b.yaml"), str(examples / "offers" / "two-cards.yaml")
    command = [*PROGRAM, "decide", card, "--offers", offers, *words]
    code = subprocess.run(command, capture_output=True, check=False).returncode
    assert code in (10, 11)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == code
