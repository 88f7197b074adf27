"""Public logs of failures, beside the project in the folder of shared cases: shares that must be read right."""

from __future__ import annotations

import json

import pytest

from capienza.diagnose.diagnosis import SIZES
from capienza.diagnose.run import diagnose_log

PRINTED_WITHIN = 5e-4
"""A size is printed with two decimals."""


@pytest.fixture
def told(shared):
    rows = [json.loads(line) for line in (shared / "cases" / "failures.jsonl").read_text().splitlines()]
    return [(row["truth"], row["confidence"], diagnose_log([row["log"].encode()])) for row in rows]


def share(results) -> float:
    results = list(results)
    assert results
    return sum(results) / len(results)


def test_the_phase_is_right(told):
    sure = [(truth, found) for truth, confidence, found in told if confidence == "high" and truth["phase"] != "unknown"]
    assert share(found.phase == truth["phase"] for truth, found in sure) >= 0.9


def test_unknown_is_answered_where_the_log_does_not_tell(told):
    assert share(found.phase == "unknown" for truth, _, found in told if truth["phase"] == "unknown") >= 0.85


def test_every_printed_figure_is_read(told):
    assert share(
        getattr(found, name) == pytest.approx(truth[name], rel=PRINTED_WITHIN, abs=1)
        for truth, _, found in told for name in SIZES if truth[name] is not None
    ) >= 0.98  # fmt: skip


def test_no_figure_is_made_up(told):
    assert [
        (found.evidence, name)
        for truth, _, found in told for name in SIZES if truth[name] is None and getattr(found, name) is not None
    ] == []  # fmt: skip


def test_what_is_no_lack_of_memory_is_not_called_one(told):
    others = [found for truth, _, found in told if truth["memory"] == "no"]
    assert others
    assert [found.evidence for found in others if found.memory in ("device", "host")] == []


def test_what_the_run_survived_is_not_called_fatal(told):
    survived = [found for truth, _, found in told if truth["fatal"] is False]
    assert survived
    assert [found.evidence for found in survived if found.is_fatal] == []
