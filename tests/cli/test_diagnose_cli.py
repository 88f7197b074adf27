"""`diagnose` as it is called: a file, a pipe, both languages, JSON, and what is no log."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import pytest


@pytest.fixture
def log(examples):
    return examples / "logs" / "first-step.log"


def test_the_answer_names_phase_cause_and_figures(capienza, log):
    done = capienza("diagnose", log)
    assert done.code == 0
    for word in ("optimizer_step", "another process", "Figures in the log", "What not to change in silence"):
        assert word in done.out


def test_json_has_every_field_of_a_truth(capienza, log):
    found = json.loads(capienza("diagnose", log, "--json").out)
    assert found["schema"] == "capienza.diagnose/1"
    names = "phase cause memory fatal detail requested_bytes total_bytes free_bytes allocated_bytes gpu_index evidence"
    assert set(names.split()) <= found.keys()
    assert found["phase"] == "optimizer_step"
    assert found["fatal"] is True


def test_italian(capienza, log):
    done = capienza("diagnose", log, "--lang", "it")
    assert "un altro processo" in done.out


def test_standard_input(capienza, log, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(log.read_bytes())))
    done = capienza("diagnose", "-", "--json")
    assert json.loads(done.out)["log"] == "-"


@pytest.mark.parametrize("content", [b"", b"all is well\n"])
def test_nothing_failed(capienza, tmp_path, content):
    path = tmp_path / "run.log"
    path.write_bytes(content)
    done = capienza("diagnose", path)
    assert done.code == 0
    assert "No failure found" in done.out
    found = json.loads(capienza("diagnose", path, "--json").out)
    assert (found["failure"], found["phase"], found["cause"], found["memory"]) == (False, None, None, "no")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\x1f\x8b\x08\x00" + b"\0" * 40, "diagnose.packed"),
        (bytes(range(128, 256)) * 8, "diagnose.not-text"),
    ],
)
def test_what_is_no_log_is_named(capienza, tmp_path, content, code):
    path = tmp_path / "run.log"
    path.write_bytes(content)
    done = capienza("diagnose", path, "--json")
    assert done.code != 0
    assert code in done.out + done.err
    assert "Traceback" not in done.err


def test_a_folder_and_a_missing_file_are_named(capienza, tmp_path):
    for path, code in ((tmp_path, "diagnose.directory"), (tmp_path / "none.log", "diagnose.not-there")):
        done = capienza("diagnose", path, "--json")
        assert done.code != 0
        assert code in done.out + done.err
