"""What a traced program reads of its memory: the allocator's counters at that moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from capienza.allocator.replay import replay  # noqa: E402
from capienza.allocator.settings import Settings, parse_settings  # noqa: E402
from capienza.errors import UsageError  # noqa: E402
from capienza.trace import predict_peak  # noqa: E402
from capienza.trace.counters import Counters  # noqa: E402
from capienza.trace.recording import Recording  # noqa: E402

pytestmark = pytest.mark.oracle
KIB, MIB = 1 << 10, 1 << 20


def run(step: Callable[[], object], chosen: Settings | None = None) -> Any:
    return predict_peak(lambda: None, lambda _state: step(), steps=1, device="L40S", settings=chosen or Settings())


def taken(size_bytes: int) -> Any:
    return torch.empty(size_bytes, dtype=torch.uint8, device="cuda")


def test_reserved_is_what_the_allocator_holds() -> None:
    """700 B are a block of 1,024 in a segment of 2 MiB; 3 MiB lie in one of 20, which stays when they go."""
    seen: list[dict[str, int]] = []

    def step() -> None:
        small = taken(700)
        seen.append(torch.cuda.memory_stats())
        taken(3 * MIB)
        seen.append(torch.cuda.memory_stats(0))
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats("cuda:0")
        seen.append(torch.cuda.memory_stats(device="cuda"))
        del small

    run(step)
    names = (
        "allocated_bytes.all.current", "allocated_bytes.all.peak", "requested_bytes.all.peak", "active_bytes.all.peak",
        "reserved_bytes.all.current", "reserved_bytes.all.peak", "reserved_bytes.small_pool.current",
        "reserved_bytes.large_pool.current", "inactive_split_bytes.all.current", "segment.all.current",
        "allocation.all.allocated", "allocation.all.freed", "num_device_alloc", "num_device_free", "num_alloc_retries",
    )  # fmt: skip
    block, small, large = 1024, 2 * MIB, 20 * MIB
    assert [[one[name] for name in names] for one in seen] == [
        [block, block, 700, block, small, small, small, 0, small - block, 1, 1, 0, 1, 0, 0],
        [
            block, block + 3 * MIB, 700 + 3 * MIB, block + 3 * MIB, small + large, small + large, small, large,
            small - block, 2, 2, 1, 2, 0, 0,
        ],
        [block, block, 700, block, small, small, small, 0, small - block, 1, 2, 1, 2, 1, 0],
    ]  # fmt: skip


READERS: dict[str, tuple[Callable[[], Any], int]] = {
    "memory_allocated": (lambda: torch.cuda.memory_allocated(), MIB),
    "max_memory_allocated": (lambda: torch.cuda.max_memory_allocated(device=0), 4 * MIB),
    "memory_reserved": (lambda: torch.cuda.memory_reserved("cuda"), 22 * MIB),
    "max_memory_reserved": (lambda: torch.cuda.max_memory_reserved(), 22 * MIB),
    "memory.memory_reserved": (lambda: torch.cuda.memory.memory_reserved(), 22 * MIB),
    "memory.memory_allocated": (lambda: torch.cuda.memory.memory_allocated(), MIB),
    "accelerator": (lambda: torch.accelerator.memory_reserved(), 22 * MIB),
    "accelerator.allocated": (lambda: torch.accelerator.max_memory_allocated(), 4 * MIB),
    "accelerator.memory": (lambda: torch.accelerator.memory.memory_allocated(0), MIB),
    "free": (lambda: torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0], 22 * MIB),
    "summary": (lambda: torch.cuda.memory_summary(0, abbreviated=True), f"{MIB} B allocated, {22 * MIB} B reserved"),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_every_way_to_ask_gives_the_same(name: str) -> None:
    seen: list[Any] = []

    def step() -> None:
        kept = taken(MIB)
        taken(3 * MIB)
        seen.append(READERS[name][0]())
        del kept

    found = run(step)
    assert seen == [READERS[name][1]]
    assert ("trace.free-memory" in [one.code for one in found.assumed]) == (name == "free")


def test_a_cache_emptied_through_the_accelerator_is_empty() -> None:
    def step() -> None:
        taken(MIB)
        torch.accelerator.empty_cache()
        assert torch.cuda.memory_reserved() == 0

    run(step)


def test_asking_of_a_device_that_holds_nothing_adds_none() -> None:
    def step() -> None:
        assert torch.cuda.memory_reserved(1) == 0
        taken(MIB)

    assert [one.gpu for one in run(step).gpus] == ["gpu:0"]


@pytest.mark.parametrize("ask", [lambda found, name: found[name], lambda found, name: found.get(name, 0)])
def test_a_counter_that_a_trace_has_not_is_refused(ask: Callable[[Any, str], int]) -> None:
    def step() -> None:
        taken(MIB)
        assert ask(torch.cuda.memory_stats(), "oversize_segments.current") == 0

    with pytest.raises(UsageError, match=r"does not count oversize_segments\.current"):
        run(step)


def test_a_name_that_pytorch_has_not_is_none_either() -> None:
    def step() -> None:
        taken(MIB)
        assert torch.cuda.memory_stats().get("nothing", 7) == 7
        with pytest.raises(KeyError):
            torch.cuda.memory_stats()["nothing"]

    run(step)


def test_settings_of_the_allocator_count() -> None:
    """With expandable segments a page of 2 MiB or 20 is mapped, and no split is counted."""

    def step() -> None:
        kept = taken(25 * MIB)
        assert torch.cuda.memory_reserved() == 40 * MIB
        assert "inactive_split_bytes.all.current" not in torch.cuda.memory_stats()
        assert "reserved_bytes.large_pool.current" not in torch.cuda.memory_stats()
        del kept

    run(step, parse_settings("expandable_segments:True"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30 * MIB) | st.integers(0, 4 * KIB), st.integers(0, 5)), max_size=40),
    st.sampled_from([Settings(), Settings(expandable_segments=True), Settings(max_split_bytes=21 * MIB)]),
    st.integers(1, 7),
)
def test_counters_at_any_moment_are_those_of_a_replay_up_to_it(
    steps: list[tuple[int, int]], chosen: Settings, every: int
) -> None:
    """The replay keeps its books by itself; the counters are asked now and then, and must not depend on that."""
    recording = Recording()
    recording.enter("load")
    counters, alive = Counters(recording, 0, chosen), list[int]()
    for place, (size, gone) in enumerate(steps):
        alive.append(recording.allocate(size, 0, "", "", ""))
        if gone < len(alive):
            recording.free(alive.pop(gone))
        if gone == 5:
            recording.empty_cache()
        if place % every == 0:
            _agree(recording, counters, chosen)
    _agree(recording, counters, chosen)


def _agree(recording: Recording, counters: Counters, chosen: Settings) -> None:
    told, found = counters.stats(), replay(recording.of(0), chosen, None, recording.phases)
    assert told["allocated_bytes.all.current"] == found.final_allocated_bytes
    assert told["reserved_bytes.all.current"] == found.final_reserved_bytes
    assert told["allocated_bytes.all.peak"] == found.peaks.allocated_bytes
    assert told["active_bytes.all.peak"] == found.peaks.active_bytes
    assert told["requested_bytes.all.peak"] == found.peaks.requested_bytes
    assert told["reserved_bytes.all.peak"] == found.peaks.reserved_bytes
    assert (told["num_device_alloc"], told["num_device_free"]) == (found.device_allocations, found.device_frees)
    for name in {one.partition(".")[0] for one in told if ".small_pool." in one}:
        for metric in ("current", "allocated", "freed"):
            assert told[f"{name}.all.{metric}"] == sum(
                told[f"{name}.{pool}_pool.{metric}"] for pool in ("small", "large")
            )
