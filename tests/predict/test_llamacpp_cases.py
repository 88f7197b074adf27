"""Weights, cache, state and output against every measured llama.cpp case, at the bars of the project."""

from __future__ import annotations

from collections import Counter

import pytest
from llamacpp_cases import geometries, of_kind, rows, scored, share_within
from llamacpp_tables import runtime_of

from capienza.artifacts.gguf import read_gguf
from capienza.artifacts.source import LocalFile
from capienza.predict.inference.llamacpp.model import llama_model
from capienza.predict.inference.llamacpp.prediction import predict_llamacpp
from capienza.units import MIB
from capienza.validate.llamacpp_rows import quantities

KEPT = ("model_buffer", "kv_buffer", "rs_buffer", "kv_buffer+rs_buffer")


@pytest.mark.parametrize(("name", "least"), [("llamacpp_oracle.jsonl", 600), ("llamacpp_local.jsonl", 150)])
def test_weights_and_cache_to_the_byte(name, least):
    found = of_kind(scored(name), *KEPT)
    assert len(found) > least
    assert share_within(found) >= 0.99


@pytest.mark.parametrize("name", ["llamacpp_oracle.jsonl", "llamacpp_local.jsonl"])
def test_output_buffers_as_printed(name):
    found = of_kind(scored(name), "output_buffer")
    assert share_within(found, absolute_bytes=MIB // 100) == 1.0


def test_public_logs_within_two_hundredths_of_a_mib():
    found = of_kind(scored("llamacpp.jsonl"), *KEPT, "output_buffer")
    assert len(found) > 100
    assert share_within(found, absolute_bytes=MIB // 50 + MIB // 100) >= 0.97


def test_every_measured_figure_is_scored_or_says_why_not():
    for name in ("llamacpp.jsonl", "llamacpp_local.jsonl", "llamacpp_oracle.jsonl"):
        for row in rows(name):
            for quantity in quantities(row):
                assert quantity.status == "scored" or quantity.reason, quantity


def test_nothing_that_was_measured_is_read_before_the_prediction():
    for name in ("llamacpp.jsonl", "llamacpp_local.jsonl", "llamacpp_oracle.jsonl"):
        for row in rows(name)[::7]:
            blind = row | {"measured": {}, "consistency": {}}
            seen = {q.name: q.predicted for q in quantities(row)}
            unseen = {q.name: q.predicted for q in quantities(blind)}
            common = [key for key in seen if key in unseen and "@all" not in key and "+" not in key]
            assert all(seen[key] == unseen[key] for key in common)


def test_most_of_what_own_runs_measured_is_scored():
    statuses = Counter(q.status for row in rows("llamacpp_oracle.jsonl") for q in quantities(row))
    assert statuses["flagged"] == 0


def test_compute_buffers_of_dry_runs_and_local_runs():
    for name in ("llamacpp_oracle.jsonl", "llamacpp_local.jsonl"):
        found = of_kind(scored(name), "compute_buffer")
        assert len(found) > 80
        devices = [q for q in found if "_Host" not in q.name]
        hosts = [q for q in found if "_Host" in q.name]
        assert share_within(devices, relative=0.01) >= 0.90
        assert not hosts or share_within(hosts, relative=0.05) >= 0.85


@pytest.mark.parametrize("name", ["lfm2-1.2b", "deepseek-v2-lite"])
def test_a_header_alone_gives_the_same_bytes_as_the_engine(name, tmp_path):
    tool = geometries()
    path = tmp_path / f"{name}.gguf"
    tool.write(path, *tool.M[name])
    with LocalFile(str(path)) as source:
        header = read_gguf(source)
    model = llama_model(header.metadata, header.tensors, path.name)
    for row in rows("llamacpp_oracle.jsonl"):
        if not row["id"].startswith(f"oracle-{name}-"):
            continue
        answer = predict_llamacpp(model, runtime_of(row["config"]))
        for device, parts in row["measured"]["breakdown_bytes"].items():
            on_device = {kind: answer.of(kind).get(device) for kind in ("model_buffer", "compute_buffer")}
            assert all(buffer is None or buffer.status == "exact" for buffer in on_device.values())
            found = [buffer.amount.expected if buffer else 0 for buffer in on_device.values()]
            assert found == [parts["model"], parts["compute"]], row["id"]
