"""The summary that people read: what is not known looks like it."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest
from machines import CARD

from capienza.measure.tree import Tree

FAILS = "print('Traceback (most recent call last):'); print('ValueError: no'); raise SystemExit(1)"


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The rows of the table below a heading, cell by cell."""
    lines = text.split(heading)[1].split("\n\n")[1].splitlines()
    return [[cell for cell in line.split("  ") if cell.strip()] for line in lines[2:]]


def test_a_phase_whose_entries_are_not_all_known_is_at_least_that_and_has_no_difference(bare_machine):
    bare_machine.card("\n".join(line for line in CARD.splitlines() if not line.startswith("engine")))
    ended = bare_machine.measure("--stage", "short", "--", sys.executable, "-c", FAILS)
    rows = rows_of(ended.err.decode(), "Predicted beside observed, by phase")
    assert not any(phase["complete"] for phase in ended.run["phases"])
    for row in rows:
        assert [cell.strip().startswith("at least ") for cell in row[2:5]] == [True] * 3
        assert row[-1].strip() in ("unknown", "") or len(row) == 7


def test_a_phase_that_is_not_told_is_said_in_words_of_the_reader(bare_machine):
    ended = bare_machine.measure("--lang", "it", "--", sys.executable, "-c", FAILS)
    assert ended.run["failed_phase"] == "unknown"
    assert "fase ignota: l’uscita non la dice" in ended.err.decode()
    assert "unknown" not in ended.err.decode()


def test_a_process_that_has_ended_holds_an_unknown_and_not_zero():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    try:
        end = time.monotonic() + 10
        while Tree(pid, "x").rss_bytes() and time.monotonic() < end:
            time.sleep(0.01)
        assert Tree(pid, "x").rss_bytes() is None
    finally:
        os.waitpid(pid, 0)


def test_options_behind_the_dashes_are_of_the_command(bare_machine):
    ended = bare_machine.measure("--stage", "short", "--", "sh", "-c", "exit 0", "--lang", "it", "--json")
    assert ended.err.decode().startswith("Measured: ")
    ended = bare_machine.measure("--", "no-such-command", "--lang=it", "--json")
    assert (ended.code, ended.err.decode().splitlines()[0]) == (127, "there is no command no-such-command")
    ended = bare_machine.measure("--lang", "it", "--", "no-such-command", "--lang", "en")
    assert "il comando no-such-command non esiste" in ended.err.decode()


@pytest.mark.parametrize("given", [None, "de"])
def test_the_language_of_the_summary_is_not_that_of_the_command(bare_machine, given):
    bare_machine.variables.pop("LANGUAGE", None)
    bare_machine.variables |= {} if given is None else {"LANGUAGE": given}
    ended = bare_machine.measure("--lang", "it", "--", "sh", "-c", "echo ${LANGUAGE-none}")
    assert (ended.out, ended.code) == (f"{given or 'none'}\n".encode(), 0)
    assert ended.err.decode().startswith("Misurato: ")


def test_an_option_of_the_command_without_dashes_before_it_says_what_to_write(bare_machine):
    ended = bare_machine.measure("python", "train.py", "--epochs", "3")
    assert (ended.code, ended.out) == (125, b"")
    assert "capienza measure CARD -- COMMAND..." in ended.err.decode().splitlines()[-1]
    ended = bare_machine.measure("--epochs", "3", "--", "true")
    assert ended.code == 125
    assert "No such option" in ended.err.decode()


def test_what_is_not_told_is_one_finding_in_words(bare_machine):
    for language, words in (("en", "whether inputs were truncated"), ("it", "se degli ingressi siano stati troncati")):
        said = bare_machine.measure("--lang", language, "--", "sh", "-c", "exit 0").err.decode()
        findings = [line for line in said.splitlines() if "usage.jsonl" in line]
        assert len(findings) == 1
        assert words in findings[0]


def test_the_document_goes_into_a_file_of_its_own_and_stdout_is_the_commands(bare_machine, tmp_path):
    out = tmp_path / "summary.json"
    ended = bare_machine.measure("--out", str(out), "--json", "--", "sh", "-c", "echo mine; exit 3")
    assert (ended.code, ended.out) == (3, b"mine\n")
    document = json.loads(out.read_text())
    assert document == json.loads(ended.err)
    assert document["record"]["id"]
    lost = bare_machine.measure("--out", str(tmp_path / "no" / "x.json"), "--", "sh", "-c", "echo ran")
    assert (lost.code, lost.out) == (125, b"")


def test_a_run_whose_folder_the_command_removed_says_so_once(bare_machine):
    ended = bare_machine.measure("--", "sh", "-c", 'rm -r "$CAPIENZA_RUN"; sleep 0.3')
    said = ended.err.decode()
    assert ended.code == 0
    assert said.count("was taken away while the command ran") == 1
    assert "make room" not in said
    assert "Readings, output and environment" not in said


def test_a_program_that_is_killed_tells_the_phase_it_was_in(bare_machine):
    program = (
        "import os, time\nfrom capienza import measure\n"
        "with measure.phase('load'): pass\n"
        "with measure.phase('backward'):\n    time.sleep(0.6)\n    os.kill(os.getpid(), 9)\n"
    )
    ended = bare_machine.measure("--", sys.executable, "-c", program)
    assert ended.code == 137
    assert (ended.run["failed_phase"], ended.run["failed_phase_from"]) == ("backward", "process")
    ended = bare_machine.measure("--", sys.executable, "-c", program.replace("os.kill(os.getpid(), 9)", "pass"))
    assert (ended.run["failed_phase"], ended.run["failed_phase_from"]) == (None, None)
