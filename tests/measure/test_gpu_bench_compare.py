"""The comparison of measured cases with predictions: its arithmetic on figures that are known beforehand."""

from __future__ import annotations

import gzip
import importlib
import json

import pytest
from tests.conftest import ROOT

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def bench(monkeypatch):
    """The modules of the folder, as when a script of it runs."""
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "gpu"))
    return importlib.import_module


def row(bench, name, bytes_by_phase):
    """A case of a tiny program as a card would have written it; the figures are allocated and reserved."""
    settings = {"device": "cuda", "torch": "2.11.0", "transformers": "5.17.0", "gpu": "NVIDIA H200"}
    phases = [
        {"phase": phase, "peak": {"allocated": size, "reserved": size}, "is_device_peak": False}
        for phase, size in bytes_by_phase.items()
    ]
    done = {"phases": phases, "outcome": "ok", "at": 1, "is_tiny": True, "settings": settings}
    return bench("card_rows").row(name, bench("programs").PROGRAMS[name].tiny(), done)


def test_the_error_is_of_the_prediction_against_the_measurement(bench, tmp_path, monkeypatch, capsys):
    compare, rows = bench("compare"), bench("card_rows")
    found = compare.predicted(bench("programs").PROGRAMS["gpt2"].tiny(), "NVIDIA H200")
    assert {str(one.phase) for one in found.gpus[0].phases} >= {
        "load", "forward", "backward", "optimizer_step_first", "optimizer_step_steady",
    }  # fmt: skip
    measured = {"forward": found.allocated_bytes // 2, "optimizer_step_steady": found.allocated_bytes * 2}
    rows.append(tmp_path / "cases.jsonl", row(bench, "gpt2", measured))
    rows.append(
        tmp_path / "run.jsonl",
        {"kind": "smallest_capacity", "name": "gpt2", "fails_at_bytes": 11, "runs_at_bytes": 12},
    )
    with gzip.open(tmp_path / "gpt2.recording.json.gz", "wt") as file:
        events = [{"action": "alloc", "size": 123456, "addr": 0, "stream": 0}]
        json.dump({"device_traces": [events], "marks": [[0, "forward"]], "segments": []}, file)
    monkeypatch.setattr("sys.argv", ["compare.py", str(tmp_path / "cases.jsonl")])
    assert compare.main() == 0
    shown = capsys.readouterr().out
    assert "torch_allocated_peak: 1 cases, median 50.000%, worst 50.000%, 1 too low" in shown
    assert "smallest capacity: fails at 11 B, runs at 12 B, predicted" in shown
    assert "forward, only measured: 1 x 123456 B" in shown


def test_a_case_of_main_memory_is_left_out_aloud(bench, tmp_path, monkeypatch, capsys):
    found = row(bench, "gpt2", {"forward": 1}) | {"num_gpus": 0, "gpu": "none"}
    bench("card_rows").append(tmp_path / "cases.jsonl", found)
    monkeypatch.setattr("sys.argv", ["compare.py", str(tmp_path / "cases.jsonl")])
    assert bench("compare").main() == 1
    assert "gpt2: left out, outcome ok on none" in capsys.readouterr().out


def test_an_operation_is_compared_call_by_call_and_a_choice_with_the_rules(bench, tmp_path, monkeypatch, capsys):
    table = bench("compare_kernels")
    shape = {"rows": 16, "columns": 16, "dtype": "float32", "kind": "cat"}
    # `cat` takes no scratch: 16 rows of 32 fp32 numbers come out of it.
    calls = [{"requested": {"peak_over_before": 2048}}, {"requested": {"peak_over_before": 2000}}]
    choice = {"kind": "sdpa_choice", "dtype": "float32", "d": 64, "mask": "none", "grouped": False, "training": False}
    choice |= {"s": 128, "autograd": None}
    bench("card_rows").append(
        tmp_path / "kernels.jsonl",
        {"kind": "settings", "device": "cuda", "gpu": "NVIDIA H200", "capability": [9, 0], "torch": "2.11.0+cu130",
         "cudnn": 91900},
        choice | {"chosen": "efficient"}, choice | {"chosen": "flash"},
        {"kind": "kernel", "name": "cat", "shape": shape, "calls": calls},
        {"kind": "kernel", "name": "mm", "shape": {}, "refused": "no such kernel"},
    )  # fmt: skip
    monkeypatch.setattr("sys.argv", ["compare_kernels.py", str(tmp_path / "kernels.jsonl")])
    assert table.main() == 0
    shown = capsys.readouterr().out
    assert "measured [2048, 2000] B, predicted [2048, 2048] B, off by [0, 48] B" in shown
    assert "cat: 0 of 1 shapes to the byte" in shown
    assert "mm {}: not measured: no such kernel" in shown
    assert "the card took flash, the rules say efficient" in shown
    assert "attention: 2 combinations, 1 differ" in shown


def test_a_table_of_main_memory_is_not_compared(bench, tmp_path, monkeypatch, capsys):
    bench("card_rows").append(tmp_path / "kernels.jsonl", {"kind": "settings", "device": "cpu"})
    monkeypatch.setattr("sys.argv", ["compare_kernels.py", str(tmp_path / "kernels.jsonl")])
    assert bench("compare_kernels").main() == 1
    assert "not measured on a card" in capsys.readouterr().err
