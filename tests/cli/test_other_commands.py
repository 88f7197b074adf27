"""`card`, `offers`, `devices`, languages and the forms of output."""

import json

import pytest


def test_a_new_card_is_in_order(capienza, tmp_path):
    for language in ("en", "it"):
        written = capienza("card", "new", "Qwen/Qwen3-8B", "--engine", "vllm", "--gpus", "2", "--lang", language)
        card = tmp_path / f"{language}.yaml"
        card.write_text(written.out)
        assert capienza("card", "check", card).code == 0


def test_all_problems_of_a_card_are_shown_at_once_with_their_place(capienza, tmp_path):
    card = tmp_path / "card.yaml"
    card.write_text(
        "capienza: 1\nname: x\nmodell: {id: a/b}\ntask: inference\ntokens: {required: 8k}\nreserve: {amount: 6}\n"
    )
    shown = capienza("card", "check", card)
    assert shown.code == 3
    for text in ("card.yaml:3:1: modell", "card.yaml:5:20: tokens.required", "card.yaml:6:", "model"):
        assert text in shown.err
    document = json.loads(capienza("card", "check", card, "--json").out)
    assert len(document["errors"]) >= 3


def test_the_schema_is_json(capienza):
    assert json.loads(capienza("card", "schema").out)["type"] == "object"


def test_offers_are_listed_checked_and_converted(capienza, examples, tmp_path):
    two = examples / "offers" / "two-cards.yaml"
    assert "rtx6000ada-1x3d" in capienza("offers", "list", two).out
    assert json.loads(capienza("offers", "check", two, "--json").out)["offers"] == 2
    out = tmp_path / "two.jsonl"
    done = capienza("offers", "import", two, "--out", out)
    assert (done.code, done.err) == (0, "")
    assert "offers: 2" in done.out
    again = json.loads(capienza("offers", "list", out, "--json").out)["offers"]
    first = json.loads(capienza("offers", "list", two, "--json").out)["offers"]
    for offer in (*again, *first):
        del offer["place"]
    assert again == first


def test_devices_show_unknown_as_a_word(capienza):
    document = json.loads(capienza("devices", "--json").out)
    assert len(document["devices"]) > 80
    (l4,) = json.loads(capienza("devices", "L4", "--json").out)["devices"]
    assert l4["reported_bytes"] == 23034 * 1024**2
    assert "unknown" in capienza("devices").out


def test_italian_changes_texts_and_marks_but_never_data(capienza, examples):
    card = examples / "cards" / "llama-3.1-8b.yaml"
    italian = capienza("size", card, "--lang", "it").out
    assert "14,958 GiB" in italian
    assert "almeno" in italian
    assert capienza("size", card, "--lang", "it", "--json").out == capienza("size", card, "--json").out


@pytest.mark.parametrize("variable", ["CAPIENZA_LANG", "LC_ALL", "LANG"])
def test_the_language_follows_the_environment(capienza, monkeypatch, variable):
    run = capienza
    monkeypatch.setenv(variable, "it_IT.UTF-8")
    assert "Uso:" in run("--help").out
    monkeypatch.setenv("CAPIENZA_LANG", "en")
    assert "Usage:" in run("--help").out


def test_markdown_is_a_document(capienza, examples):
    shown = capienza("devices", "L4", "--format", "md").out
    assert shown.startswith("# L4")
    assert "| --- |" in shown


def test_our_own_faults_are_said_and_not_thrown(capienza, monkeypatch):
    import capienza.api.catalogue as home

    def broken(name):
        raise ZeroDivisionError(name)

    monkeypatch.setattr(home, "devices", broken)
    shown = capienza("devices")
    assert shown.code == 1
    assert "CAPIENZA_TRACEBACK=1" in shown.err
    assert "Traceback" not in shown.err


def test_an_interrupt_has_its_exit_code(capienza, monkeypatch):
    import capienza.api.catalogue as home

    def stopped(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(home, "devices", stopped)
    assert capienza("devices").code == 130


def test_help_follows_the_language_of_each_call(capienza):
    for language, text in (
        ("it", "Mostra questo messaggio"),
        ("en", "Show this message"),
        ("it", "Mostra questo messaggio"),
    ):
        shown = capienza("size", "--help", "--lang", language).out
        assert text in shown
        assert ("Uso:" in shown) == (language == "it")


def test_files_that_are_no_files_are_refused_at_once(capienza, examples, tmp_path):
    import os

    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for arguments in (("offers", "check", pipe), ("card", "check", pipe), ("offers", "check", tmp_path)):
        shown = capienza(*arguments)
        assert shown.code in (3, 4)
        assert "expected a file" in shown.err


def test_one_id_in_two_files_is_refused(capienza, examples):
    two = examples / "offers" / "two-cards.yaml"
    shown = capienza("decide", examples / "cards" / "plain-7b.yaml", "--offers", two, "--offers", two)
    assert shown.code == 3
    assert "rtx4090-1x3d" in shown.err


def test_a_closed_standard_output_still_gives_the_exit_code(examples):
    import subprocess
    import sys

    command = f"exec {sys.executable} -c 'from capienza.cli.main import main; main()' devices >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_cache_format_that_is_not_understood_is_refused_with_its_place(capienza, examples, tmp_path):
    card = tmp_path / "card.yaml"
    model = examples / "configs" / "Qwen--Qwen3-8B"
    card.write_text(
        f"capienza: 1\nname: x\nmodel: {{path: {model}}}\ntask: inference\ntokens: {{required: 50000}}\n"
        "concurrency: 1\nengine: {name: vllm, options: {kv_cache_dtype: banana}}\n"
    )
    shown = capienza("size", card)
    assert shown.code == 3
    assert "engine.options.kv_cache_dtype" in shown.err
    card.write_text(card.read_text().replace("banana", "fp8"))
    shown = capienza("size", card)
    assert "more than the 40960 that the model is made for" in shown.out


def test_a_conversion_never_takes_the_place_of_its_source_and_says_when_it_cannot_write(capienza, examples, tmp_path):
    source = tmp_path / "offers.jsonl"
    assert capienza("offers", "import", examples / "offers" / "two-cards.yaml", "--out", source).code == 0
    before = source.read_bytes()
    for target in (source, tmp_path / "out.yaml", tmp_path):
        shown = capienza("offers", "import", source, "--out", target)
        assert shown.code == 2
        assert ".jsonl" in shown.err
    shown = capienza("offers", "import", source, "--out", tmp_path / "no-such-folder" / "x.jsonl")
    assert shown.code == 4
    assert "cannot be written" in shown.err
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["offers.jsonl"]


@pytest.mark.parametrize("arguments", ["devices", "size --params 7e9 --json", "--help"])
def test_an_answer_that_cannot_be_written_is_said(arguments):
    import subprocess
    import sys
    from pathlib import Path

    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    command = f"exec {sys.executable} -c 'from capienza.cli.main import run; run()' {arguments} >/dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_conversion_that_is_ended_leaves_no_half_file(tmp_path):
    import subprocess
    import sys
    import time

    offers = tmp_path / "many.csv"
    rows = "".join(f"o{number},p,L4,1,1,5 USD\n" for number in range(300_000))
    offers.write_text("id,provider,gpu,cards,days,total\n" + rows)
    command = [sys.executable, "-c", "from capienza.cli.main import run; run()", "offers", "import", offers]
    child = subprocess.Popen([*command, "--out", tmp_path / "out.jsonl"], stderr=subprocess.DEVNULL)
    for _ in range(200):
        if any(path.name.startswith(".capienza-") for path in tmp_path.iterdir()):
            break
        time.sleep(0.05)
    child.terminate()
    assert child.wait(20) == 143
    assert [path.name for path in tmp_path.iterdir()] == ["many.csv"]


def test_the_installed_command_writes_its_error_document(tmp_path):
    import subprocess
    import sys

    command = [sys.executable, "-c", "from capienza.cli.main import run; run()"]
    done = subprocess.run([*command, "size", "./nothing", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert json.loads(done.stdout)["errors"][0]["code"] == "artifacts.path-not-found"


def test_a_conversion_writes_through_a_link_and_never_over_a_pipe(capienza, examples, tmp_path):
    import os

    source = examples / "offers" / "two-cards.yaml"
    link, pipe = tmp_path / "link.jsonl", tmp_path / "pipe.jsonl"
    link.symlink_to(tmp_path / "target.jsonl")
    assert capienza("offers", "import", source, "--out", link).code == 0
    assert link.is_symlink()
    assert (tmp_path / "target.jsonl").read_text().count("\n") == 2
    os.mkfifo(pipe)
    (tmp_path / "folder.jsonl").mkdir()
    for target in (pipe, tmp_path / "folder.jsonl"):
        refused = capienza("offers", "import", source, "--out", target)
        assert refused.code == 4
        assert "the path of a file" in refused.err
    assert pipe.is_fifo()


MISSING_MODEL = "capienza: 1\nname: x\n{model}\ntask: inference\n"


@pytest.mark.parametrize("command", ["size", "decide"])
@pytest.mark.parametrize(
    "model, spot, found, meant",
    [
        ("model: {path: ./card}", "3:15", "card", None),
        ("model:\n  path: models/llama", "4:9", "models/llama", "./models/llama3"),
        ("model: {path: weights.gguf}", "3:15", "weights.gguf", "./weights1.gguf"),
        ("model: {path: ./nowhere/at/all}", "3:15", "nowhere/at/all", None),
        ("model: {path: /nowhere/at/all}", "3:15", "/nowhere/at/all", None),
    ],
)
def test_a_model_that_is_not_where_the_card_says_is_an_error_of_the_card(
    capienza, tmp_path, command, model, spot, found, meant
):
    """With its line and key; what is suggested is a model, and never the card itself."""
    (tmp_path / "models" / "llama3").mkdir(parents=True)
    (tmp_path / "weights1.gguf").write_bytes(b"")
    card = tmp_path / "card.yaml"
    card.write_text(MISSING_MODEL.format(model=model))
    shown = capienza(command, card)
    assert (shown.code, shown.out) == (4, "")
    where = found if found.startswith("/") else str(tmp_path / found)
    assert shown.err.splitlines()[0] == f"{card}:{spot}: model.path: there is no file or folder {where}"
    assert "card.yaml?" not in shown.err
    assert (f"Did you mean {meant}?" in shown.err) is (meant is not None)
    (row,) = json.loads(capienza(command, card, "--json").out)["errors"]
    assert (row["code"], row["where"]) == ("card.model-not-found", f"{card}:{spot}: model.path")


@pytest.mark.parametrize(
    "line, code",
    [
        (("size", "{card}", "--gpu", "L4", "--gpu", "T4"), "usage.option-twice"),
        (("size", "{card}", "--format", "md", "--format", "json"), "usage.option-twice"),
        (("size", "{card}", "--json", "--format", "md"), "usage.two-forms"),
        (("decide", "{card}", "--format", "human", "--json"), "usage.two-forms"),
        (("decide", "{card}", "--evidence", ""), "usage.empty-value"),
        (("decide", "{card}", "--offers", ""), "usage.empty-value"),
        (("size", "{card}", "--gpu", ""), "usage.empty-value"),
        (("size", ""), "usage.empty-value"),
        (("card", "new", ""), "usage.empty-value"),
        (("card", "check", ""), "usage.empty-value"),
        (("offers", "check", ""), "usage.empty-value"),
    ],
)
def test_a_line_that_says_two_things_or_nothing_is_refused(capienza, examples, line, code):
    card = examples / "cards" / "plain-7b.yaml"
    line = [part.format(card=card) for part in line]
    shown = capienza(*line)
    assert shown.code == 2
    if line[:2] == ["card", "new"]:  # writes a card, in no other form
        assert "is empty" in shown.err
        return
    (error,) = json.loads(capienza(*line, *([] if "--json" in line else ["--json"])).out)["errors"]
    assert error["code"] == code


def test_offers_and_flags_may_be_repeated(capienza, examples):
    card, two = examples / "cards" / "plain-7b.yaml", examples / "offers" / "two-cards.yaml"
    assert capienza("decide", card, "--offers", two, "--json", "--json", "--format", "json").code == 10
