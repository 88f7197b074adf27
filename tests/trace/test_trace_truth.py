"""A traced program beside the real CPU allocator: the same operations, and the same bytes alive after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from truth.compare import Job, Row, Worker, compared
from truth.others import HELD_OUT, KNOWN
from truth.sample import FAST, NO_CHECKPOINTING, OTHER_WAYS, SIXTY

pytestmark = pytest.mark.oracle

STATED_BYTES = 64
BOUNDARY_PERCENT, HELD_OUT_PERCENT, RAW_PERCENT = 0.01, 0.1, 0.1
USUAL, THRIFTY = {"dtype": "float32"}, {"dtype": "bfloat16", "foreach": False, "checkpointing": True}
NEEDS_DIFFUSERS = {name for name, (class_name, _, _) in KNOWN.items() if class_name.startswith("diffusers.")}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def assert_equal_bytes(row: Row) -> None:
    assert row.error == ""
    assert abs(row.base_bytes) <= STATED_BYTES
    assert abs(row.boundary) <= BOUNDARY_PERCENT, row
    assert row.raw <= RAW_PERCENT, row
    if row.raw < -RAW_PERCENT:
        assert row.raw_op.startswith("aten."), row
        assert row.scratch >= row.missing - STATED_BYTES, row


@pytest.mark.parametrize("model_type", FAST)
def test_training_holds_what_the_real_allocator_counts(worker: Worker, model_type: str):
    jobs: list[Job] = [("program", {"model_type": model_type, **more}) for more in (USUAL, THRIFTY)]
    for row in compared(worker, jobs):
        assert_equal_bytes(row)
        assert row.parted == "" or model_type in OTHER_WAYS["program"]
        assert row.ops > 100


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "mamba"])
def test_generating_holds_what_the_real_allocator_counts(worker: Worker, model_type: str):
    (row,) = compared(worker, [("generation", {"model_type": model_type, "dtype": "float32", "new_tokens": 6})])
    assert_equal_bytes(row)
    assert row.parted == ""


@pytest.mark.parametrize("name", ["ViT", "Swin", "T5", "SegFormer", "Wav2Vec2"])
def test_models_without_language_hold_what_the_real_allocator_counts(worker: Worker, name: str):
    (row,) = compared(worker, [("other", {"name": name})])
    assert_equal_bytes(row)


@pytest.mark.parametrize("model_type", ["llama", "gpt2"])
def test_the_counter_and_the_profiler_count_the_same(worker: Worker, model_type: str):
    """Two instruments of PyTorch's, over the whole of a program."""
    (found,) = worker.run("counted_twice", [("program", {"model_type": model_type, "dtype": "float32"})])
    assert found["changes"] > 1000
    assert found["counter"] == found["profiler"]


def test_a_trace_of_another_program_is_told_apart(worker: Worker):
    """The comparison must be able to fail: two programs that differ in one option of the optimizer."""
    (real,) = worker.run("real", [("program", {"model_type": "llama", "dtype": "float32", "foreach": True})])
    (traced,) = worker.run("traced", [("program", {"model_type": "llama", "dtype": "float32", "foreach": False})])
    assert max(real["live"]) - max(traced["live"]) > STATED_BYTES
    assert real["ops"] != traced["ops"]


def test_what_fails_says_where(worker: Worker):
    (found,) = worker.run("traced", [("generation", {"model_type": "gemma4_assistant", "dtype": "float32"})])
    assert "gemma4_assistant" in found["error"] or "cache_utils" in found["error"]


@pytest.mark.slow
def test_sixty_types_hold_what_the_real_allocator_counts(worker: Worker):
    combinations = list(product(("float32", "bfloat16"), (True, False), (False, True)))
    rows: list[Row] = []
    parted: dict[str, set[str]] = {kind: set() for kind in OTHER_WAYS}
    for model_type in SIXTY:
        jobs: list[Job] = [
            ("program", {"model_type": model_type, "dtype": dtype, "foreach": foreach, "checkpointing": checkpointing})
            for dtype, foreach, checkpointing in combinations
        ]
        jobs += [("generation", {"model_type": model_type, "dtype": dtype}) for dtype in ("float32", "bfloat16")]
        found = compared(worker, jobs)
        rows += found
        for (kind, _), row in zip(jobs, found, strict=True):
            if row.parted:
                parted[kind].add(model_type)
    assert len(rows) == 600
    assert [row for row in rows if row.error and row.name not in NO_CHECKPOINTING] == []
    assert [row for row in rows if abs(row.base_bytes) > STATED_BYTES] == []
    assert [row for row in rows if abs(row.boundary) > BOUNDARY_PERCENT] == []
    assert [row for row in rows if row.raw > RAW_PERCENT] == []
    assert parted == {kind: set(names) & set(SIXTY) for kind, names in OTHER_WAYS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KNOWN, *HELD_OUT])
def test_every_model_without_language_holds_what_the_real_allocator_counts(worker: Worker, name: str):
    if name in NEEDS_DIFFUSERS:
        pytest.importorskip("diffusers")
    (row,) = compared(worker, [("other", {"name": name})])
    assert row.error == ""
    assert abs(row.boundary) <= (BOUNDARY_PERCENT if name in KNOWN else HELD_OUT_PERCENT)
    assert row.raw <= RAW_PERCENT
