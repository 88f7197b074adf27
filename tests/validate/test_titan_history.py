"""What a case's commit or month says: from when logits are let go, and which programs were captured as graphs."""

from __future__ import annotations

import pytest
from training_at_hand import training_cases

from capienza.validate.titan_history import is_captured, is_early
from capienza.validate.training_rows import training_row


def entry(name: str, **changes):
    row = next(one for one in training_cases() if one["id"] == name)
    return next(training_row(row | changes))


@pytest.mark.parametrize(
    ("source", "early", "captured"),
    [
        ("pytorch/torchtitan 40f8fd007 (2024-06) fused AdamW on/off", True, False),
        ("pytorch/torchtitan 40f8fd007 (2024-05)", True, False),
        ("pytorch/torchtitan 40f8fd007 (2024-07)", False, False),
        ("pytorch/torchtitan 5940ddeb5 (2025-02) reshard_after_forward=default", False, False),
        ("pytorch/torchtitan e23bb707d", False, False),
        ("somebody/else (2024-06) fca8ab7be", False, False),
        ("pytorch/torchtitan fca8ab7be FSDP4xTP2 no AC", False, True),
        ("pytorch/torchtitan experiments/graph_trainer", False, True),
        (None, False, False),
    ],
)
def test_history(source: str | None, early: bool, captured: bool) -> None:
    assert is_early({"source": source}) is early
    assert is_captured({"source": source}) is captured


def test_logits_held_in_2024_are_near_and_without_them_it_is_not() -> None:
    # Pull request 355 logged 59.48 GiB a week before 391 saved "3.9G".
    assert abs(entry("titan-40f8fd007").error) < 0.08
    assert entry("titan-40f8fd007", source="pytorch/torchtitan 40f8fd007").error < -0.15


def test_a_captured_graph_is_no_program_without_compilation() -> None:
    assert entry("titan-fca8ab7be-sac").status == "skipped"
    assert entry("titan-fca8ab7be-sac", source="pytorch/torchtitan").status == "scored"


def test_a_case_that_states_less_than_half_is_for_reading() -> None:
    assert entry("titan-986f6800f").status == "flagged"
    assert entry("titan-986f6800f", completeness=0.5).status == "scored"
    # Its pull request (887) says nothing of checkpointing; with all of it, the figure is this one.
    told = entry("titan-986f6800f", completeness=0.5, gradient_checkpointing="full")
    assert abs(told.error) < 0.01
