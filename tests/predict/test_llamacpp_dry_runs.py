"""Every buffer of geometries that no shared case has, against dry runs of llama.cpp itself: equal to the byte."""

from __future__ import annotations

import pytest
from llamacpp_tables import model, runs, runtime_of

from capienza.predict.inference.llamacpp.compute import plan_of, reserved
from capienza.predict.inference.llamacpp.graph.build import Step
from capienza.predict.inference.llamacpp.placement import place
from capienza.predict.inference.llamacpp.prediction import predict_llamacpp
from capienza.predict.inference.llamacpp.runtime import sizes_of
from capienza.predict.inference.llamacpp.weights import placed_weights

NAMES = sorted({run["model"] for run in runs()})


def of(answer, device, *kinds):
    return sum(answer.of(kind)[device].amount.expected for kind in kinds if device in answer.of(kind))


@pytest.mark.parametrize("name", NAMES)
def test_weights_context_and_compute_to_the_byte(name):
    for run in runs():
        if run["model"] != name:
            continue
        answer = predict_llamacpp(model(name), runtime_of(run["config"]))
        found = {
            device: [
                of(answer, device, "model_buffer"),
                of(answer, device, "kv_buffer", "rs_buffer"),
                of(answer, device, "compute_buffer"),
            ]
            for device in run["bytes"]
        }
        assert found == run["bytes"], run["config"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("config", [{}, {"n": 3}, {"ngl": 9}, {"fa": "off", "np": 3}, {"ngl": 0}], ids=str)
def test_leaving_out_like_layers_changes_nothing(name, config):
    runtime, whole = runtime_of({"c": 8192} | config, is_dry_run=False), model(name)
    placement = place(whole.blocks, runtime)
    sizes, placed = sizes_of(runtime, 4096), placed_weights(whole, runtime, placement)
    step = Step(tokens=516, sequences=runtime.n_seq_max, outputs=512)
    short, full = (
        plan_of(whole, runtime, placement, sizes, placed, all_layers=all_layers) for all_layers in (False, True)
    )
    assert len(short.layers) <= len(full.layers)
    assert reserved(short, step) == reserved(full, step)
