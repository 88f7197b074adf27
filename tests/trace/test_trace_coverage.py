"""Which causal language models can be traced on fake cuda tensors: all that run, and what does not says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from truth.compare import Worker, covered
from truth.programs import MODEL_TYPES
from truth.sample import FP32_ONLY, NOT_FOR_REAL

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


@pytest.mark.parametrize("model_type", ["llama", "mixtral", "jamba"])
def test_it_trains_and_generates_on_fake_cuda_tensors(worker: Worker, model_type: str):
    found = covered(worker, model_type, "bfloat16", real=False)
    assert found["why"] == ""
    assert found["instantiates"]
    assert found["trains"]
    assert found["generates"]
    assert found["trained"]["device"] == "cuda"


def test_one_that_cannot_run_alone_says_why(worker: Worker):
    found = covered(worker, "gemma4_assistant", "bfloat16", real=False)
    assert found["instantiates"]
    assert not found["trains"]
    assert "shared_kv_states" in found["why"]


@pytest.mark.slow
def test_all_causal_language_models_but_a_few_are_traced(worker: Worker):
    counts: Counter[str] = Counter()
    unexplained = []
    for model_type in MODEL_TYPES:
        found = covered(worker, model_type, "bfloat16", real=False)
        counts["instantiates"] += found["instantiates"]
        counts["both"] += found["trains"] and found["generates"]
        if not ((found["trains"] and found["generates"]) or found["why"]):
            unexplained.append(model_type)
    assert unexplained == []
    assert counts["instantiates"] >= 188
    assert counts["both"] >= 172


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [*NOT_FOR_REAL, *FP32_ONLY])
def test_what_is_left_out_fails_for_real_too(worker: Worker, model_type: str):
    found = covered(worker, model_type, "bfloat16", real=True)
    assert not (found["trains"] and found["generates"])
    assert found["why"]
