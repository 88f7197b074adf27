"""Profiles of reinforcement learning and tables of pipeline runs as input of `validate`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from training_at_hand import shared

from capienza.errors import InputError
from capienza.validate.cases import scored_rows
from capienza.validate.scored import Scored

ARCH = {
    "n_layers": 2, "hidden_size": 64, "intermediate_size": 128, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16,
    "vocab_size": 512, "tied_embeddings": True,
}  # fmt: skip
KNOBS = {"seq_len": 64, "micro_batch": 2, "group_size": 4, "lora_rank": 4, "gpu_memory_utilization": 0.4}
COLUMNS = "file,model,gpu,pp,dp,tp,mbs,gbs,layers_per_stage,measured_max_mem_bytes"


def profile(**changes: Any) -> dict[str, Any]:
    point = {"knobs": KNOBS, "device_peak_bytes": 1_500_000_000}
    document = {
        "model_id": "meta-llama/Llama-small", "device": {"name": "NVIDIA L4", "total_bytes": 24 * 10**9},
        "model_spec": {"arch": ARCH}, "realised_weight_bytes": {},
        "measured": [{**point, "phase": "training"}, {**point, "phase": "generation"}],
    }  # fmt: skip
    return document | changes


def scored(path: Path) -> list[Scored]:
    return list(scored_rows([str(path)]))


def written(tmp_path: Path, document: dict[str, Any]) -> Path:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document, indent=2))
    return path


def test_both_phases_of_a_profile(tmp_path: Path) -> None:
    training, generation = scored(written(tmp_path, profile()))
    assert (training.quantity, training.status) == ("rl.training", "scored")
    # Context and libraries of an L4, 226 + 687 MiB, and little for so small a model.
    assert 913 * 2**20 < (training.expected or 0) < 1000 * 2**20
    # 40 % of the card, and what stands outside; 256 tokens are prepared for, 16 read.
    assert generation.expected == int(0.4 * 24 * 10**9) - (256 - 16) * (6 * 128 + 2 * 64) + (226 + 660) * 2**20


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"measured": ["x"]}, "a reading is an object"),
        ({"measured": [{"phase": "training", "device_peak_bytes": 1, "knobs": {}}]}, "seq_len"),
        (
            {"measured": [{"phase": "training", "device_peak_bytes": 1, "knobs": KNOBS | {"lora_rank": "x"}}]},
            "lora_rank",
        ),
        ({"measured": [{"phase": "sleeping", "device_peak_bytes": 1, "knobs": KNOBS}]}, "not predicted for such"),
        ({"model_id": "nobody/knows"}, "no family"),
        ({"realised_weight_bytes": {"base": 10**9}}, "parameters"),
        ({"device": None}, "total_bytes"),
        ({"model_spec": {"arch": {**ARCH, "n_layers": "two"}}}, "arch.n_layers"),
    ],
)
def test_a_point_that_is_not_predicted_says_why(tmp_path: Path, changes: dict, said: str) -> None:
    entry = scored(written(tmp_path, profile(**changes)))[0]
    assert entry.status == "skipped"
    assert any(part in entry.reason for part in said.split("|"))


def test_a_table_of_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        f"{COLUMNS}\na,OPT-350M,GH-96,1,1,4,1,1,26,9551478784\nb,OPT-350M,RTX-3090|Titan,1,1,2,2,4,26,5946474496\n"
        "c,OPT-350M,GH-96,1,1,x,1,1,26,9551478784\nd,Unknown,GH-96,1,1,4,1,1,26,1\ne,OPT-350M,GH-96,1,1,4,1,1,26,\n"
    )
    found = scored(path)
    assert [entry.status for entry in found] == ["scored", "skipped", "skipped", "skipped", "skipped"]
    assert abs(found[0].error or 1) < 0.08
    assert ["RTX-3090" in found[1].reason, "tp is" in found[2].reason] == [True, True]


@pytest.mark.parametrize("text", ['{"a": 1}', "{", "[1, 2]", '{"model_spec": 1, "measured": []}'])
def test_a_file_of_no_known_form_is_refused_as_one_of_cases(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InputError):
        scored(path)


def test_sailors_runs_on_gh200() -> None:
    found = scored(shared("data", "papers", "sailor", "sailor_validation_measured.csv"))
    errors = [abs(entry.error or 0) for entry in found if entry.status == "scored" and entry.model == "OPT-350M"]
    assert len(errors) == 15
    assert statistics.median(errors) < 0.03
    assert max(errors) < 0.08


@pytest.mark.slow
def test_profiles_without_a_fitted_constant() -> None:
    folder = shared("data", "papers", "agilerl")
    found = list(scored_rows([str(path) for path in sorted(folder.glob("*.json"))]))
    bars = {"rl.training": (0.028, 0.13), "rl.generation": (0.025, 0.10)}
    for quantity, (mean, worst) in bars.items():
        errors = [abs(entry.error or 0) for entry in found if entry.quantity == quantity and entry.status == "scored"]
        assert len(errors) >= 180
        assert statistics.fmean(errors) < mean
        assert max(errors) < worst
