"""Names and outputs that are not UTF-8, and outputs that are closed: no internal error, and JSON stays JSON."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from capienza.cli.streams import escaped

SOURCE = Path(__file__).parents[2] / "src"
CARD = "capienza: 1\nname: è 模型 🦙\nmodel: {path: %s}\ntask: inference\ntokens: {required: 64}\nconcurrency: 1\n"
OFFERS = "- {id: à, provider: p, gpu: L4, cards: 1, days: 3, total: 60 USD, document: {id: d}}\n"
ENVIRONMENTS = [
    {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii:strict"},
    {"PYTHONUTF8": "1"},
]


def run(*arguments, closed="", **environment):
    """The program as a process of its own; its streams as bytes."""

    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    command = [sys.executable, "-c", "from capienza.cli.main import run; run()", *map(os.fsencode, arguments)]
    if closed:
        command = ["sh", "-c", f'exec "$@" {" ".join(f"{number}>&-" for number in closed)}', "sh", *command]
    return subprocess.run(
        command, env=kept | {"PYTHONPATH": str(SOURCE)} | environment, capture_output=True, check=False, timeout=60
    )


@pytest.fixture
def card(examples, tmp_path):
    """A card and offers whose words, and whose folder, need more than ASCII; the folder's name is no UTF-8."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    folder.mkdir()
    (folder / "card.yaml").write_text(CARD % (examples / "configs" / "Qwen--Qwen3-8B"), encoding="utf-8")
    (folder / "offers.yaml").write_text(OFFERS, encoding="utf-8")
    return folder / "card.yaml"


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: "-".join(one.values()))
@pytest.mark.parametrize("form", ["human", "md", "json"])
def test_every_form_can_be_written_in_every_encoding(card, environment, form):
    offers = card.with_name("offers.yaml")
    for arguments in (["size", card], ["decide", card, "--offers", offers], ["offers", "list", offers]):
        done = run(*arguments, "--format", form, "--lang", "it", **environment)
        assert done.returncode in (0, 10), done.stderr
        if form == "json":
            assert json.loads(done.stdout)


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: "-".join(one.values()))
def test_an_error_about_such_a_file_is_json_too(card, environment):
    done = run("decide", card, "--offers", card.with_name("nothere.yaml"), "--json", "--lang", "it", **environment)
    assert done.returncode == 4
    (error,) = json.loads(done.stdout)["errors"]
    assert error["where"].endswith("nothere.yaml")


def test_a_calculation_that_names_such_a_folder_is_cited(card, examples):
    folder = card.parent / "model"
    shutil.copytree(examples / "configs" / "Qwen--Qwen2.5-0.5B", folder)
    header = json.dumps({"t": {"dtype": "BF16", "shape": [2 * 10**10], "data_offsets": [0, 4 * 10**10]}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 4 * 10**10)
    card.write_text((CARD % folder.name).replace("🦙", "x"), encoding="utf-8")
    done = run("decide", card, "--offers", card.with_name("offers.yaml"), "--json")
    assert done.returncode == 11, done.stderr
    assert b'"calculation"' in done.stdout


def test_escapes_mean_the_same_in_json():
    text = "è模🦙\udcff"
    shown = escaped(UnicodeEncodeError("ascii", text, 0, len(text), "no"))
    assert shown == ("\\u00e8\\u6a21\\ud83e\\udd99\\udcff", len(text))
    assert json.loads(f'"{shown[0]}"') == text


@pytest.mark.parametrize("closed", ["1", "2", "12"])
def test_closed_streams_change_no_exit_code(card, closed):
    assert run("card", "check", card, closed=closed).returncode == 0
    assert run("card", "check", "nothere.yaml", closed=closed).returncode == 4
    assert run("size", "--nothing", closed=closed).returncode == 2
