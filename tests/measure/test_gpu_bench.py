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


def of_card(folder, *arguments):
    """Run the script for 24 programs in main memory; how it ended, and the lines that it wrote."""
    script = str(ROOT / "bench" / "gpu" / "measure_card.py")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "LANG": "C.UTF-8"}
    ended = subprocess.run(
        [sys.executable, script, "--cpu", "--out", str(folder), *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    written = {path.stem: [*map(json.loads, path.read_text().splitlines())] for path in folder.glob("*.jsonl")}
    return ended, written


def test_programs_and_operations_of_a_card_run_in_main_memory(tmp_path, capienza):
    asked = (
        "xmem-gemma-2b-adafactor",
        "lora-plain",
        "sdpa-cudnn",
        "generate",
        "qwen3-0.6b-expandable",
        "mm",
        "sort_last",
    )
    ended, written = of_card(tmp_path, "--only", *asked)
    assert ended.returncode == 0, ended.stderr
    rows = {one["program"]: one for one in written["cases"]}
    # No CPU has the kernel of cuDNN: that program fails, says so, and takes nothing with it.
    assert set(rows) == {"xmem-gemma-2b-adafactor", "lora-plain", "generate", "qwen3-0.6b-expandable"}
    told = {(one["kind"], one.get("name")) for one in written["run"]}
    assert {("failed", "sdpa-cudnn"), ("done", "mm"), ("done", "sort_last"), ("done", "sdpa choice")} <= told
    for row in rows.values():
        assert (row["outcome"], row["num_gpus"], row["gpu"]) == ("ok", 0, "none: main memory, no measurement of a GPU")
        assert not row["measured"]
    phases = [one["phase"] for one in rows["lora-plain"]["run"]["phases"]]
    assert phases == [
        "load", "forward", "backward", "optimizer_step_first", "forward", "backward", "optimizer_step_steady",
        "forward", "backward", "optimizer_step_steady",
    ]  # fmt: skip
    assert [one["phase"] for one in rows["generate"]["run"]["phases"]] == ["load", *["prefill", "decode"] * 3]
    # A program with its own settings of the allocator runs in an interpreter that was started with them.
    assert rows["qwen3-0.6b-expandable"]["run"]["settings"]["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert rows["lora-plain"]["run"]["settings"]["PYTORCH_CUDA_ALLOC_CONF"] is None
    chosen = [one for one in written["kernels"] if one["kind"] == "sdpa_choice"]
    assert {one["chosen"] for one in chosen} <= {"flash", "math"}
    shown = capienza("validate", tmp_path / "cases.jsonl")
    assert (shown.code, shown.err) == (0, "")


def test_nothing_of_a_card_begins_when_the_time_is_up(tmp_path):
    ended, written = of_card(tmp_path, "--minutes", "0", "--only", "gpt2", "mm")
    assert ended.returncode == 1
    assert "cases" not in written
    (left,) = [one for one in written["run"] if one.get("why") == "the time is up"]
    assert left["names"] == ["gpt2", "mm"]


def test_no_run_begins_when_the_time_is_up(tmp_path):
    ended, cases = made(tmp_path, "--minutes", "-1")
    assert ended.returncode == 1
    assert ended.stderr.count("left out, the time is up") == 2
    assert not cases.exists()
