"""The tables of known lines: what would make a row silently useless."""

from __future__ import annotations

import re

import pytest

from capienza.logs.known import ROWS, known


def test_codes_are_unique():
    codes = [row.code for row in ROWS]
    assert len(set(codes)) == len(codes)


def test_no_figure_is_left_unread_in_a_pattern():
    """A placeholder may stand once: a second one would be looked for as text."""
    assert [row.code for row in ROWS if row.pattern and re.search(r"(?<!\?P)<[a-z_]+>", row.pattern.pattern)] == []


def test_anchors_are_whole_lower_case_words():
    for row in ROWS:
        assert row.anchors
        assert all(anchor and anchor == anchor.lower() for anchor in row.anchors), row.code


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("EngineCore failed to start.", ["vllm.dead"]),
        ("Shard process was signaled to shutdown with signal 9", ["host.sigkill", "tgi.killed"]),
        ("Shard process was signaled to shutdown with signal 15", ["launcher.sigterm", "tgi.outer"]),
        ("Shard 0 failed to start", ["tgi.outer"]),
    ],
)
def test_a_line_of_one_server_is_not_of_another(line, codes):
    assert [row.code for row, _ in known(line).rows] == codes
