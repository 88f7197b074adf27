"""Figures that nothing could have: an error where they are read, not a verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gate import LATER, plan_for, written_corpus

from capienza.errors import InputError
from capienza.quality.answers import Answer, impossible, read_answers


@pytest.mark.parametrize(
    "figures, name",
    [
        ({"logprob": 0.4}, "logprob"),
        ({"logprob": 1e400}, "logprob"),
        ({"logprob": float("nan")}, "logprob"),
        ({"logprob": float("-inf")}, "logprob"),
        ({"kl": -0.1}, "kl"),
        ({"kl": float("inf")}, "kl"),
        ({"same_top": 1.2}, "same_top"),
        ({"logprob": 0.0, "kl": 0.0, "same_top": 1.0}, None),
        ({"logprob": -700.5, "kl": 12.0, "same_top": 0.0}, None),
        ({}, None),
    ],
)
def test_figures_that_cannot_be(figures: dict[str, float], name: str | None) -> None:
    found = impossible(Answer(item="q", output="x", **figures))
    assert (found and found.parameters["name"]) == name


@pytest.mark.parametrize(
    "line, code",
    [
        ('{"item": "q0", "output": "1", "logprob": 0.5}', "quality.impossible-figure"),
        ('{"item": "q0", "output": "1", "logprob": NaN}', "jsonlines.not-json"),
        ('{"item": "q0", "output": "1", "logprob": "low"}', "quality.not-an-answer"),
    ],
)
def test_a_file_with_such_a_figure_is_not_read(tmp_path: Path, line: str, code: str) -> None:
    plan = plan_for(written_corpus(tmp_path, 3))
    header = {"schema": "capienza.quality-outputs/1", "plan": plan.id, "arm": "candidate", "target": "t"}
    path = tmp_path / "out.jsonl"
    path.write_text(f"{json.dumps({**header, 'date': LATER.isoformat()})}\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_answers(str(path))
    assert caught.value.message.code == code
    assert f"{path}:2" in str(caught.value)
