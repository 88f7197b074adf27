"""Some hundred logs made up in the shapes in which programs print, and every head that loggers put before lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capienza.diagnose.diagnosis import SIZES
from capienza.diagnose.run import diagnose_log
from capienza.logs import reader
from capienza.logs.reader import LogReader

HERE = Path(__file__).parent
ROWS = [json.loads(line) for line in (HERE / "logs_of_kinds.jsonl").read_text().splitlines()]
AS_KEPT = [json.loads(line) for line in (HERE / "logs_as_kept.jsonl").read_text().splitlines()]
"""Logs that a container, a notebook or a terminal has already put into a form of its own."""
HEADS = {
    "container runtime": "2025-02-03T10:00:00.123456789Z stderr F ",
    "compose": "trainer-1  | ",
    "journal": "Feb 03 10:00:00 node7 python3[4121]: ",
    "quote": "> ",
    "labelled job": "0: ",
    "logging": "2025-02-03 10:00:00,123 - ERROR - __main__ - ",
    "ray": "(WorkerDict pid=3312, ip=10.0.0.3) ",
}


def told(log: str) -> tuple:
    found = diagnose_log([log.encode()])
    return (found.phase, found.cause, found.memory, found.is_fatal, *(getattr(found, name) for name in SIZES))


@pytest.mark.parametrize("row", [*ROWS, *AS_KEPT], ids=[row["name"] for row in [*ROWS, *AS_KEPT]])
def test_a_log_is_read(row):
    found = diagnose_log([row["log"].encode()])
    assert (found.phase, found.is_fatal) == (row["phase"], row["fatal"])
    assert found.memory == row["memory"]
    for name in SIZES:
        if name in row:
            assert getattr(found, name) == pytest.approx(row[name], rel=5e-4, abs=1)
    if "gpu_index" in row:
        assert found.gpu_index == row["gpu_index"]


@pytest.mark.parametrize("head", HEADS.values(), ids=list(HEADS))
def test_a_head_before_each_line_changes_nothing(head):
    for row in ROWS:
        log = "".join(head + line for line in row["log"].splitlines(keepends=True))
        assert told(log) == told(row["log"]), row["name"]


def test_lines_kept_as_json_objects_say_the_same():
    for row in ROWS:
        log = "".join(json.dumps({"log": line, "stream": "stderr"}) + "\n" for line in row["log"].splitlines(True))
        assert told(log) == told(row["log"]), row["name"]


def facts_of(log: str) -> list:
    reader = LogReader()
    return [*reader.feed(log.encode()), *reader.close()]


def test_a_line_that_is_passed_over_would_have_told_nothing(monkeypatch):
    """Plain lines are not taken apart: the facts are those of reading every line."""
    told_at_once = [facts_of(row["log"]) for row in ROWS]
    monkeypatch.setattr(reader, "is_plain", lambda _: False)
    assert [facts_of(row["log"]) for row in ROWS] == told_at_once


@pytest.mark.parametrize("width", [80, 100, 132])
def test_a_log_copied_from_a_terminal_says_the_same(width):
    for row in ROWS:
        lines = [line[at : at + width] for line in row["log"].split("\n") for at in range(0, max(1, len(line)), width)]
        cut = "\n".join(lines)
        if not any(line and len(line) % width == 0 for line in row["log"].split("\n")):
            assert told(cut) == told(row["log"]), row["name"]
