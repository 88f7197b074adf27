"""`capienza decide --out`: the file appears complete or not at all, and says early what it cannot do."""

from __future__ import annotations

import datetime
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import demo_decision  # noqa: E402 - a script of this project, not a package


@pytest.fixture
def world(tmp_path, monkeypatch):
    """The demo's card, offers and records, made now."""
    monkeypatch.chdir(tmp_path)
    demo_decision.make(Path("world"), datetime.datetime.now(datetime.UTC).replace(microsecond=0))
    return tmp_path


ARGUMENTS = ("decide", "world/card.yaml", "--offers", "world/offers.yaml", "--evidence", "world/evidence")


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["decision.html", "decision.md", "Decision.HTML"])
def test_the_answer_is_shown_and_written(capienza, world, name):
    plain = capienza(*ARGUMENTS)
    shown = capienza(*ARGUMENTS, "--out", name)
    assert (shown.code, shown.out) == (0, plain.out)
    assert shown.err == f"written: {name}\n"
    assert left_in(world) == sorted([name, "world"])
    text = (world / name).read_text()
    assert text.startswith("<!DOCTYPE html>" if name.lower().endswith("html") else "# Decision: support-assistant")
    for word in (
        "ada-1x3d",
        "A. Engineer",
        "580.95.05",
        "20.96 GiB",
        "55.71 USD",
        "https://nord.example/offers/ada-1x3d",
    ):
        assert word in text.replace("<wbr>", "").replace("\\", "")


def test_json_stays_one_document(capienza, world):
    shown = capienza(*ARGUMENTS, "--json", "--out", "decision.md")
    assert shown.code == 0
    assert json.loads(shown.out)["counts"] == {"admissible": 2, "to_confirm": 1, "exclude": 2}
    assert "2 " in (world / "decision.md").read_text()


def test_italian(capienza, world):
    shown = capienza(*ARGUMENTS, "--out", "decisione.html", "--lang", "it")
    text = (world / "decisione.html").read_text()
    assert '<html lang="it">' in text
    assert "55,71 USD" in text
    assert shown.err.startswith("scritto: ")


def test_permissions_are_those_of_any_file(capienza, world):
    (world / "other").touch()
    capienza(*ARGUMENTS, "--out", "decision.md")
    modes = {stat.S_IMODE((world / name).stat().st_mode) for name in ("other", "decision.md")}
    assert len(modes) == 1


@pytest.mark.parametrize("name", ["decision.pdf", "decision", "html", ".html", "decision.html.gz"])
def test_another_ending_is_refused_before_all_the_work(capienza, world, name):
    shown = capienza("decide", "no-such-card.yaml", "--out", name)
    assert shown.code == 2
    assert ".md, .html" in shown.err
    assert left_in(world) == ["world"]


def test_a_folder_is_refused(capienza, world):
    (world / "decision.html").mkdir()
    shown = capienza("decide", "no-such-card.yaml", "--out", "decision.html")
    assert shown.code == 4
    assert "folder" in shown.err
    assert left_in(world / "decision.html") == []


def test_a_folder_that_is_not_there_is_named(capienza, world):
    shown = capienza(*ARGUMENTS, "--out", "nowhere/decision.md")
    assert shown.code == 4
    assert "nowhere" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("name", ["round.md", "a" * 300 + ".md"])
def test_a_place_that_the_file_system_refuses(capienza, world, name):
    (world / "round.md").symlink_to("round.md")
    shown = capienza("decide", "no-such-card.yaml", "--out", name)
    assert shown.code == 4
    assert "cannot be written" in shown.err
    assert left_in(world) == ["round.md", "world"]


def test_a_name_as_long_as_file_systems_allow(capienza, world):
    name = "\u00e8" * 126 + ".md"
    assert capienza(*ARGUMENTS, "--out", name).code == 0
    assert left_in(world) == sorted(["world", name])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(capienza, world):
    (world / "shut").mkdir(mode=0o500)
    shown = capienza(*ARGUMENTS, "--out", "shut/decision.md")
    assert shown.code == 4
    assert shown.out == ""


def test_a_failure_while_writing_leaves_what_was_there(capienza, world, monkeypatch):
    (world / "decision.md").write_text("before")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    shown = capienza(*ARGUMENTS, "--out", "decision.md")
    assert shown.code == 4
    assert "No space left" in shown.err
    assert shown.out == ""
    assert (world / "decision.md").read_text() == "before"
    assert left_in(world) == ["decision.md", "world"]


def test_bad_offers_leave_what_was_there(capienza, world):
    (world / "decision.md").write_text("before")
    (world / "world" / "offers.yaml").write_text("- {id: x, gpu: L4, cards: -1}\n")
    assert capienza(*ARGUMENTS, "--out", "decision.md").code == 3
    assert (world / "decision.md").read_text() == "before"
    assert left_in(world) == ["decision.md", "world"]


def test_one_verdict_or_the_whole(capienza, world):
    shown = capienza(*ARGUMENTS, "--out", "decision.md", "--why", "ada-1x3d", "memory")
    assert shown.code == 2
    assert "--why" in shown.err


@pytest.mark.parametrize("module", ["jinja2", "altair", "vl_convert"])
def test_without_the_extra_a_page_is_refused_and_markdown_is_not(world, module):
    script = (
        "import sys\nclass Without:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Without())\nsys.argv = ['capienza', *sys.argv[1:]]\n"
        "from capienza.cli.main import main\nmain()"
    )

    def run(name: str):
        command = [sys.executable, "-c", script, *ARGUMENTS, "--out", name]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=world)

    page, markdown = run("decision.html"), run("decision.md")
    assert page.returncode == 5, page.stderr
    assert "capienza[report]" in page.stderr
    assert "Traceback" not in page.stderr
    assert markdown.returncode == 0, markdown.stderr
    assert left_in(world) == ["decision.md", "world"]


def test_neither_the_terminal_nor_markdown_loads_what_a_page_needs(world):
    script = (
        "import sys\nsys.argv = ['capienza', *sys.argv[1:]]\nfrom capienza.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nsys.stderr.write(' '.join(sys.modules))"
    )
    for more in ((), ("--out", "decision.md")):
        command = [sys.executable, "-c", script, *ARGUMENTS, *more]
        run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=world)
        loaded = set(run.stderr.split())
        assert "capienza.decide.engine" in loaded
        assert not loaded & {"jinja2", "altair", "vl_convert", "numpy", "pandas"}
