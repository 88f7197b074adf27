"""What autograd writes in place: a trace beside the real CPU allocator, with nothing that looks at operations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from truth.compare import Job, Worker
from truth.gradients import SIDE, USES

pytestmark = pytest.mark.oracle
MOST_BYTES = 4096
"""Numbers that operations wrap, copies of places and of masks inside kernels: a sixty-fourth of a tensor."""
ONE_TENSOR = SIDE * SIDE * 4


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def peaks(worker: Worker, job: Job) -> tuple[int, int]:
    """Over what was there before: for real, and traced."""
    (real,), (traced,) = worker.run("bare", [job]), worker.run("traced as bare", [job])
    assert "error" not in real, real
    assert "error" not in traced, traced
    return real["raw_peak"] - real["base"], max(traced["live"]) - traced["base"]


@pytest.mark.parametrize("name", USES)
def test_gradients_are_put_together_as_for_plain_tensors(worker: Worker, name: str):
    real, traced = peaks(worker, ("used", {"name": name}))
    assert abs(real - traced) <= MOST_BYTES


@pytest.mark.parametrize("name", ["twice", "gather", "by places", "selected", "the highest"])
def test_a_watched_run_takes_a_tensor_more(worker: Worker, name: str):
    """The comparison must be able to fail: PyTorch itself writes nowhere in place when a mode looks on."""
    (watched,) = worker.run("traced", [("used", {"name": name})])
    real, _ = peaks(worker, ("used", {"name": name}))
    assert max(watched["live"]) - watched["base"] - real == pytest.approx(ONE_TENSOR, abs=MOST_BYTES)


@pytest.mark.parametrize("model_type", ["mamba", "llama", "qwen3_moe"])
def test_a_model_that_nobody_watches_holds_what_is_traced(worker: Worker, model_type: str):
    real, traced = peaks(worker, ("program", {"model_type": model_type, "dtype": "float32", "checkpointing": True}))
    assert abs(real - traced) <= 64
