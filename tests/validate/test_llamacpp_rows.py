"""Cases of llama.cpp of our own making: what no run has is said by its key, and no case disappears."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from capienza.validate.cases import scored_rows

ROW: dict[str, Any] = {
    "id": "own", "source": {"kind": "own"}, "engine": "llama.cpp", "build": "b9849",
    "model": {
        "name": "own", "arch": "llama", "n_layer": 2, "n_head": 4, "n_head_kv": 2, "n_embd": 256, "n_ff": 512,
        "n_embd_head_k": 64, "n_embd_head_v": 64, "n_vocab": 320, "n_ctx_train": 4096,
        "gguf": {"block_count": 2, "attention.head_count_kv": 2}, "tensor_types": {"f32": 5, "f16": 16},
    },
    "runtime": {
        "n_ctx": 1024, "n_batch": 512, "n_ubatch": 512, "n_seq_max": 1, "type_k": "f16", "type_v": "f16",
        "offloaded_layers": "3/3",
    },
    "devices": [{"name": "CUDA0"}],
    "measured": {"kv_buffers": {"CUDA0": [1.0]}, "compute_buffers": {"CUDA0": [4.0]}},
}  # fmt: skip


@pytest.fixture
def scored(tmp_path):
    def read(row):
        path = tmp_path / "cases.jsonl"
        path.write_text(json.dumps(row) + "\n")
        return list(scored_rows([str(path)]))

    return read


def changed(*keys, value):
    row = copy.deepcopy(ROW)
    inner = row
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return row


def test_a_complete_case_is_scored(scored):
    """1024 cells x 2 layers x (K and V of 2 heads x 64) x 2 B = 1 MiB."""
    found = {row.quantity: row for row in scored(ROW)}
    assert found["kv_buffer@CUDA0"].status == "scored"
    assert found["kv_buffer@CUDA0"].expected == found["kv_buffer@CUDA0"].measured == 2**20


@pytest.mark.parametrize(
    "keys, value",
    [
        *[(("model",), value) for value in ("x", None, [], 1)],
        *[(("runtime",), value) for value in ("x", None)],
        *[(("devices",), value) for value in ("x", {}, [1])],
        *[(("runtime", "n_ctx"), value) for value in (-1, "x", 1.5, True, 10**30)],
        *[(("runtime", "n_ubatch"), value) for value in (0, -1, [1])],
        *[(("runtime", "type_k"), value) for value in ("q99", 1, [], True)],
        *[(("model", "n_layer"), value) for value in (-1, 10**9, "2")],
        *[(("model", "n_head_kv"), value) for value in (-1, [2], "two", [])],
        *[(("model", "gguf", "attention.head_count_kv"), value) for value in (-1, [2], 1.5, {})],
        (("model", "tensor_types", "f16"), 0),
        (("model", "arch"), 5),
        *[(("measured", "kv_buffers"), value) for value in ("x", 1, [1])],
        *[(("measured", "kv_buffers", "CUDA0"), value) for value in (-1, "x", None, [], [{}], 1e300)],
        (("measured", "breakdown_bytes"), {"CUDA0": {"model": 1}}),
        (("measured", "breakdown_bytes"), {"CUDA0": 5}),
    ],
)
def test_a_value_that_no_run_has_is_said_by_its_key(scored, keys, value):
    found = scored(changed(*keys, value=value))
    assert [row.status for row in found] == ["skipped"]
    assert ".".join(keys) in found[0].reason


@pytest.mark.parametrize("keys", [("devices",), ("build",), ("source",), ("model", "gguf"), ("runtime", "type_k")])
def test_what_is_not_stated_is_null_or_left_out(scored, keys):
    left = changed(*keys, value=None)
    inner = left
    for key in keys[:-1]:
        inner = inner[key]
    assert scored(left)
    del inner[keys[-1]]
    assert scored(left)


def test_a_buffer_of_nothing_is_not_scored(scored):
    found = {row.quantity: row for row in scored(changed("measured", "kv_buffers", "CUDA0", value=0))}
    row = found["kv_buffer@CUDA0"]
    assert (row.status, row.reason) == ("skipped", "kv_buffer@CUDA0 is 0: there is nothing to divide by")


def test_a_case_without_a_predicted_figure_is_listed(scored):
    (row,) = scored(changed("model", "arch", value=None) | {"measured": {"graph_nodes": 5}})
    assert (row.quantity, row.status) == ("none", "skipped")
    assert "graph_nodes" in row.reason
