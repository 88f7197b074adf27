"""The place of a batch of tokens and vectors, which every graph has since October 2026: as llama.cpp b11549 prints it.

The figures are the compute buffers that the build of the package xllamacpp 2026.10.11549 printed on a CPU for the small
model of examples/runs, one size changed at a time, in MiB with two digits.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from capienza.artifacts.gguf import read_gguf
from capienza.artifacts.source import LocalFile
from capienza.predict.inference.llamacpp.model import llama_model
from capienza.predict.inference.llamacpp.options import llama_runtime
from capienza.predict.inference.llamacpp.prediction import predict_llamacpp
from capienza.predict.inference.llamacpp.rules import MIXED_BUILD, era_of
from capienza.units import MIB

pytest.importorskip("gguf")
RUNS = Path(__file__).parents[2] / "examples" / "runs"
PRINTED = [
    ({}, {}, 7.64),
    ({"ctx_size": 512}, {}, 7.14),
    ({"ctx_size": 4096}, {}, 10.64),
    ({"ubatch_size": 256}, {}, 3.82),
    ({"ubatch_size": 128}, {}, 1.91),
    ({}, {"WIDTH": 512}, 10.14),
    ({}, {"INNER": 1408}, 11.77),
    ({}, {"INNER": 256}, 4.02),
    ({}, {"KV_HEADS": 8}, 7.64),
    ({}, {"LAYERS": 1}, 4.02),
    ({}, {"WIDTH": 1024, "INNER": 2816}, 27.52),
    ({}, {"WIDTH": 128, "HEADS": 4, "KV_HEADS": 1}, 6.39),
]


def written(path, sizes):
    """The small model with some sizes of its own."""
    specification = importlib.util.spec_from_file_location("tiny_gguf", RUNS / "tiny_gguf.py")
    program = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(program)
    vars(program).update(sizes)
    program.write(path)
    with LocalFile(str(path)) as source:
        header = read_gguf(source)
    return llama_model(header.metadata, header.tensors, path.name)


def compute_bytes(model, build, **options):
    asked = {"device": "none", "n_gpu_layers": 0, "ctx_size": 1024, "parallel": 1} | options
    runtime, odd = llama_runtime(asked, model, version=f"b{build}", devices=("CUDA0",))
    assert odd == ()
    (buffer,) = (one for one in predict_llamacpp(model, runtime).buffers if one.kind == "compute_buffer")
    return buffer.amount.expected


@pytest.mark.parametrize(("options", "sizes", "printed"), PRINTED, ids=str)
def test_the_compute_buffer_as_printed(tmp_path, options, sizes, printed):
    model = written(tmp_path / "small.gguf", sizes)
    assert compute_bytes(model, 11549, **options) / MIB == pytest.approx(printed, abs=0.0051)


def test_a_build_before_it_has_no_such_place(tmp_path):
    model = written(tmp_path / "small.gguf", {})
    before, after = (compute_bytes(model, build) for build in (MIXED_BUILD - 1, MIXED_BUILD))
    assert after - before >= 512 * 256 * 4
    assert not era_of(None).has_mixed_input
