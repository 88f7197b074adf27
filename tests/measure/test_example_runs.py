"""The two runs that the README shows: predicted beside observed, within 3 % wherever a prediction is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIFFERENCE = re.compile(r"([+-][0-9.]+) %$", re.MULTILINE)


@pytest.mark.parametrize(("run", "least"), [("training", 5), ("llamacpp", 4)])
def test_what_the_readme_shows_is_within_three_per_cent(run, least):
    """That the page shows what the runs print today is a test of its own (tests/contract)."""
    page = (ROOT / "README.md").read_text()
    _, _, rest = page.partition(f"$ python examples/runs/beside.py {run}\n")
    differences = [float(found) for found in DIFFERENCE.findall(rest.partition("```")[0])]
    assert len(differences) >= least
    assert all(abs(difference) <= 3 for difference in differences)
