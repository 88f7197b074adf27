"""Ways to train, traced on fake CPU tensors against the real CPU allocator: operations, and what lives after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("bitsandbytes")
from capienza.trace import predict_peak  # noqa: E402
from truth.compare import Job, Worker, compared  # noqa: E402
from truth.recipes import JOBS, RECIPES  # noqa: E402

pytestmark = pytest.mark.oracle
MOST_PERCENT, MOST_BASE_BYTES = 0.01, 256
GENERATOR_BYTES = 5056
"""`torch.get_rng_state()`, kept for each recomputed region by C++, behind the dispatcher and always on the host."""
QUICK = ("adamw fused", "adafactor torch", "lora dropout", "ia3", "reentrant", "by norm")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


def _id(job: Job) -> str:
    return f"{job[0]} {job[1]['name']}"


@pytest.mark.parametrize(
    "job", [pytest.param(job, id=_id(job), marks=() if job[1]["name"] in QUICK else pytest.mark.slow) for job in JOBS]
)
def test_a_recipe_holds_what_the_real_allocator_held(worker: Worker, job: Job) -> None:
    (row,) = compared(worker, [job])
    assert row.error == ""
    assert row.parted == ""
    assert abs(row.base_bytes) <= MOST_BASE_BYTES
    if job[0] == "sequential":
        # The peak of a reentrant backward pass lies while stashes of the host's generator live.
        assert row.missing % GENERATOR_BYTES <= MOST_BASE_BYTES
    else:
        assert abs(row.boundary) <= MOST_PERCENT


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("job", [pytest.param(job, id=_id(job)) for job in JOBS])
def test_a_recipe_runs_on_a_gpu_that_is_not_there(job: Job) -> None:
    kind, arguments = job
    build, step = RECIPES[kind](**arguments)

    def built() -> object:
        with torch.device("cuda"):
            return build()

    def stepped(state: object) -> None:
        with torch.device("cuda"):
            step(state)

    found = predict_peak(built, stepped, device="H100 SXM")
    # Adafactor reads the norms of weights and updates; what it does with them is arithmetic.
    assert bool(found.guesses) == arguments["name"].startswith("adafactor torch")
    phases = [one.phase for one in found.gpus[0].phases]
    assert phases == ["load", "forward", "backward", "optimizer_step_first", "optimizer_step_steady"]
