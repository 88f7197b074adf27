"""The script for a machine with a GPU, run tiny in main memory: every phase is measured, and its cases are readable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("torch")
pytest.importorskip("transformers")


def made(folder, *arguments):
    """Run the script; the cases that it wrote."""
    command = [sys.executable, str(ROOT / "bench" / "gpu" / "run_cases.py"), "--cpu", *arguments]
    options = ["--out", str(folder / "cases.jsonl"), "--work", str(folder / "work")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "LANG": "C.UTF-8"}
    ended = subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    return ended, folder / "cases.jsonl"


def test_a_training_is_measured_phase_by_phase(tmp_path, capienza):
    ended, cases = made(tmp_path, "--only", "tiny-full-fp32")
    assert ended.returncode == 0, ended.stderr
    (row,) = map(json.loads, cases.read_text().splitlines())
    peaks = {one["phase"]: one["bytes"] for one in row["measured"] if one["counter"].startswith("cpu_allocated")}
    assert list(peaks) == [
        "load", "forward", "backward", "optimizer_step_first", "optimizer_step_steady", "eval", "checkpoint", "export",
    ]  # fmt: skip
    assert row["outcome"] == "ok"
    assert {one["counter_kind"] for one in row["measured"]} == {"unknown"}
    weights = 4 * (2 * 4096 * 256 + 256 + 4 * (2 * 256 + 2 * 256 * 256 + 2 * 128 * 256 + 3 * 704 * 256))
    assert peaks["load"] == pytest.approx(weights, rel=0.001)
    assert peaks["optimizer_step_first"] >= 4 * weights
    (summary,) = tmp_path.glob("work/tiny-full-fp32/runs/*/run.json")
    executed = json.loads(summary.read_text())["executed"]
    assert (executed["tokens"], executed["microbatch"], executed["truncated"]) == (64, 2, 0)
    shown = capienza("validate", cases)
    assert (shown.code, shown.err) == (0, "")


def test_no_run_begins_when_the_time_is_up(tmp_path):
    ended, cases = made(tmp_path, "--minutes", "-1")
    assert ended.returncode == 1
    assert ended.stderr.count("left out, the time is up") == 2
    assert not cases.exists()
