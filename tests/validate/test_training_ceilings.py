"""The shipped ceilings of trainings beside the shared cases: made from them, and as far up as is asked of ceilings.

The figures move with every change of the predictor: what is checked is the bar, and that `scripts/calibrate` was run.
"""

from __future__ import annotations

import functools
import hashlib
import statistics

import pytest
from training_at_hand import shared

from capienza.predict.calibration import shipped
from capienza.validate.cases import scored_rows
from capienza.validate.run import calibrated, calibration_of
from capienza.validate.scored import Scored

COVERED = (0.93, 0.98)
MOST_WIDTH = 0.10
HOW = "run scripts/calibrate, and commit what it writes"


@functools.cache
def scored() -> tuple[Scored, ...]:
    return tuple(row for row in scored_rows([str(shared("cases", "training.jsonl"))]) if row.status == "scored")


def ranged(counter: str) -> list[Scored]:
    today = calibration_of(scored(), {})
    return [calibrated(row, today) for row in scored() if row.kind.startswith(f"training.{counter}")]


def covered(rows: list[Scored]) -> float:
    return statistics.mean(bool(row.is_covered) for row in rows if row.is_covered is not None)


def width(rows: list[Scored]) -> float:
    return statistics.median(
        (row.ceiling - row.expected) / row.expected for row in rows if row.ceiling and row.expected
    )


def test_the_shipped_ceilings_are_of_the_cases_at_hand() -> None:
    for name in ("inference", "llamacpp", "llamacpp_local", "training"):
        found = hashlib.sha256(shared("cases", f"{name}.jsonl").read_bytes()).hexdigest()
        assert shipped().sources.get(f"{name}.jsonl") == found, HOW
    assert any(kind.quantity == "rl.training" for kind in shipped().kinds), HOW
    assert any(kind.quantity == "multi_gpu.device_peak" for kind in shipped().kinds), HOW


@pytest.mark.slow
def test_the_shipped_ceilings_are_those_of_todays_predictions() -> None:
    today = {
        (kind.engine, kind.quantity, kind.family, kind.kernels): kind.ratios
        for kind in calibration_of(scored(), {}).kinds
    }
    known = {(kind.engine, kind.quantity, kind.family, kind.kernels): kind.ratios for kind in shipped().kinds}
    of_training = {key: ratios for key, ratios in known.items() if key[1].startswith("training.")}
    assert of_training == today, HOW


@pytest.mark.slow
@pytest.mark.parametrize("counter", ["allocated", "device"])
def test_ceilings_cover_what_is_asked(counter: str) -> None:
    found = ranged(counter)
    assert len(found) > 40
    least, most = COVERED
    assert least <= covered(found) <= most


@pytest.mark.slow
def test_allocated_ceilings_are_narrow() -> None:
    assert width(ranged("allocated_peak")) < MOST_WIDTH


@pytest.mark.slow
def test_no_floor_is_above_what_was_measured() -> None:
    compared = [row for row in scored() if isinstance(row.measured, float)]
    assert len(compared) > 300
    assert [row.id for row in compared if (row.floor or 0) - row.rounding > float(row.measured or 0)] == []
    assert sum(bool(row.floor) for row in compared) > 100


@pytest.mark.slow
def test_a_model_is_not_behind_its_own_ceiling() -> None:
    """By hand for one row: the ceiling is that of all rows but its model's."""
    row = next(row for row in scored() if row.id == "fms-a100-L74" and row.kind.startswith("training.allocated_peak"))
    without = calibration_of([one for one in scored() if one.model != row.model], {})
    assert calibrated(row, calibration_of(scored(), {})).ceiling == calibrated(row, without).ceiling
