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
ASKS_NOTHING = ("gemma3", "modernbert-decoder", "phi4_multimodal", "qwen3_next", "mamba2", "bart")
"""Weights cut at a deviation, towers beside the language, states, a hybrid, an encoder with its masks."""
ASKS_WHERE_TOKENS_GO = {"dbrx", "jetmoe", "longcat_flash"}
"""Their loops read how many tokens each expert gets: the one thing that training leaves to be assumed."""


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


@pytest.mark.parametrize("model_type", ASKS_NOTHING)
def test_training_a_dense_model_guesses_nothing(worker: Worker, model_type: str):
    (found,) = worker.run("traces", [("program", {"model_type": model_type, "dtype": "bfloat16", "device": "cuda"})])
    assert found["stage"] == "done"
    assert found["guesses"] == []


def test_training_experts_in_a_loop_tells_what_was_assumed(worker: Worker):
    (found,) = worker.run("traces", [("program", {"model_type": "dbrx", "dtype": "bfloat16", "device": "cuda"})])
    assert any("shared out" in guess for guess in found["guesses"])


def test_one_that_cannot_run_alone_says_why(worker: Worker):
    found = covered(worker, "gemma4_assistant", "bfloat16", real=False)
    assert found["instantiates"]
    assert not found["trains"]
    assert "shared_kv_states" in found["why"]


@pytest.mark.slow
def test_all_causal_language_models_but_a_few_are_traced(worker: Worker):
    counts: Counter[str] = Counter()
    unexplained, guessed = [], set()
    for model_type in MODEL_TYPES:
        found = covered(worker, model_type, "bfloat16", real=False)
        counts["instantiates"] += found["instantiates"]
        counts["both"] += found["trains"] and found["generates"]
        if not ((found["trains"] and found["generates"]) or found["why"]):
            unexplained.append(model_type)
        if found["trained"].get("guesses"):
            guessed.add(model_type)
    assert unexplained == []
    assert guessed == ASKS_WHERE_TOKENS_GO
    assert counts["instantiates"] >= 188
    assert counts["both"] >= 172


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [*NOT_FOR_REAL, *FP32_ONLY])
def test_what_is_left_out_fails_for_real_too(worker: Worker, model_type: str):
    found = covered(worker, model_type, "bfloat16", real=True)
    assert not (found["trains"] and found["generates"])
    assert found["why"]
