"""How near the predictions are to the measured trainings; the errors of the day are in the pull request."""

from __future__ import annotations

import statistics

import pytest
from training_at_hand import training_cases

from capienza.validate.scored import Scored
from capienza.validate.training_rows import training_row


def scored(start: str) -> list[Scored]:
    return [entry for row in training_cases() if row["id"].startswith(start) for entry in training_row(row)]


def errors(found: list[Scored], *quantities: str) -> list[float]:
    return sorted(abs(entry.error or 0) for entry in found if entry.quantity in quantities and entry.status == "scored")


@pytest.mark.slow
def test_one_gpu_with_fms_acceleration() -> None:
    found = [entry for entry in scored("fms-") if entry.quantity.endswith("gold")]
    after = errors(found, "training.allocated_after.gold")
    assert len(after) >= 44
    assert statistics.median(after) < 0.0002
    assert after[int(0.95 * len(after))] < 0.005
    peaks = errors(found, "training.allocated_peak.gold")
    assert len(peaks) >= 44
    assert statistics.median(peaks) < 0.01


@pytest.mark.slow
def test_no_run_that_died_is_said_to_fit() -> None:
    words = [entry.word for entry in scored("") if entry.quantity == "training.oom" and entry.word]
    assert len(words) > 20
    assert "fit" not in words


def test_torchtitan_from_the_second_step_on() -> None:
    found = [entry for entry in scored("titan-") if "TP" not in entry.id]
    steady = errors(found, "training.reserved_peak.silver")
    assert len(steady) >= 9
    assert statistics.median(steady) < 0.03


@pytest.mark.slow
def test_reserved_peaks_of_plain_programs_and_of_rows_of_varying_length() -> None:
    plain = errors(scored("rasbt-gpt2"), "training.reserved_peak.gold")
    assert len(plain) >= 6
    assert max(plain) < 0.01
    varied = errors(scored("swiftbench-"), "training.reserved_peak.silver")
    assert len(varied) >= 50
    assert statistics.median(varied) < 0.04
