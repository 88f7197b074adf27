"""What holds for every program, and the plain allocator as an oracle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.naive import Naive
from allocator.programs import EMPTY, MIB, give, programs, take
from capienza.allocator.capacity import smallest_capacity_bytes
from capienza.allocator.events import ALLOC, FREE, Event
from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings

MANY = st.sampled_from(
    [
        Settings(),
        parse_settings("expandable_segments:True"),
        parse_settings("max_split_size_mb:20"),
        parse_settings("max_split_size_mb:25,expandable_segments:True"),
        parse_settings("roundup_power2_divisions:[1:8,16:4,>:2]"),
        parse_settings("large_segment_size_mb:34"),
        Settings(garbage_collection_threshold=0.3, allowed_bytes=10**12),
        Settings(garbage_collection_threshold=0.00005, allowed_bytes=10**12),
    ]
)


@given(events=programs(), max_split=st.sampled_from((None, 20, 33)), share=st.none() | st.floats(0.2, 1))
@settings(max_examples=300)
def test_as_the_plain_allocator(events: list[Event], max_split: int | None, share: float | None) -> None:
    options = Settings(max_split_bytes=max_split and max_split * MIB)
    free = replay(events, options)
    capacity = None if share is None else int(share * free.peaks.reserved_bytes)
    naive = Naive(capacity, options.max_split_bytes or 2**64)
    naive.run(events)
    found = replay(events, options, capacity)
    failed = None if found.out_of_memory is None else found.out_of_memory.event
    assert (failed, found.peaks.reserved_bytes, found.peaks.allocated_bytes) == (
        naive.failed_at,
        naive.peak,
        naive.allocated_peak,
    )
    assert (found.device_allocations, found.device_frees) == (naive.mallocs, naive.frees)
    assert (found.final_reserved_bytes, found.final_allocated_bytes) == (naive.reserved, naive.allocated)


@given(events=programs(), options=MANY)
def test_reserved_covers_active_covers_allocated(events: list[Event], options: Settings) -> None:
    peaks = replay(events, options).peaks
    assert peaks.reserved_bytes >= peaks.active_bytes >= peaks.allocated_bytes >= peaks.allocated_at_reserved_bytes
    assert peaks.active_bytes >= peaks.requested_bytes
    assert peaks.requested_bytes >= max(size for code, _, size, _ in events if code == ALLOC)
    split = peaks.inactive_split_at_reserved_bytes
    assert split is None or 0 <= split <= peaks.reserved_bytes - peaks.allocated_at_reserved_bytes


@given(events=programs(), options=MANY)
def test_all_comes_back(events: list[Event], options: Settings) -> None:
    alive = [block for code, block, _, _ in events if code == ALLOC]
    for code, block, _, _ in events:
        if code == FREE:
            alive.remove(block)
    found = replay([*events, *give(*alive), EMPTY], options)
    assert (found.final_allocated_bytes, found.final_reserved_bytes) == (0, 0)


@given(events=programs(), options=MANY)
def test_the_same_twice(events: list[Event], options: Settings) -> None:
    assert replay(events, options) == replay(iter(events), options)


@given(events=programs(), options=MANY, data=st.data())
def test_capacity(events: list[Event], options: Settings, data: st.DataObject) -> None:
    peaks = replay(events, options).peaks
    assert replay(events, options, peaks.reserved_bytes).out_of_memory is None
    below = data.draw(st.integers(0, peaks.allocated_bytes - 1))
    failed = replay(events, options, below).out_of_memory
    assert failed is not None
    assert failed.reserved_bytes <= below
    between = data.draw(st.integers(peaks.allocated_bytes, peaks.reserved_bytes))
    assert replay(events, options, between).peaks.reserved_bytes <= between


@given(events=programs(most=40), options=MANY, granularity=st.sampled_from((512, MIB, 2 * MIB, 7 * MIB)))
def test_smallest_capacity_was_seen_to_run_and_its_neighbour_to_fail(
    events: list[Event], options: Settings, granularity: int
) -> None:
    found = smallest_capacity_bytes(events, options, granularity_bytes=granularity)
    runs, fails = found.runs_bytes, found.fails_bytes
    assert runs is not None
    assert fails is not None
    assert runs - fails == granularity
    assert found.unlimited.peaks.allocated_bytes <= runs < found.unlimited.peaks.reserved_bytes + granularity
    assert replay(events, options, runs).out_of_memory is None
    assert replay(events, options, fails).out_of_memory == found.out_of_memory is not None


@given(events=programs(), larger=st.data())
def test_more_asked_for_is_more(events: list[Event], larger: st.DataObject) -> None:
    place = larger.draw(st.integers(0, len(events) - 1))
    grown = list(events)
    code, block, size, stream = grown[place]
    grown[place] = (code, block, 2 * size, stream)
    assert replay(grown).peaks.requested_bytes >= replay(events).peaks.requested_bytes


@pytest.mark.parametrize(
    ("events", "runs", "fails"),
    [
        # 20 MiB cached go back before the 30: 30 are enough, where 50 are reserved without pressure
        ([take(1, 20 * MIB), *give(1), take(2, 30 * MIB)], 30 * MIB, 28 * MIB),
        # 2 of 20 MiB live: the segment stays
        ([take(1, 2 * MIB), take(2, 10 * MIB), *give(2), take(3, 30 * MIB)], 50 * MIB, 48 * MIB),
        ([take(1, 1)], 2 * MIB, 0),
        ([take(1, 0)], 0, None),
        ([], 0, None),
        ([take(1, 2**60)], None, None),
    ],
)
def test_smallest_capacity(events: list[Event], runs: int | None, fails: int | None) -> None:
    found = smallest_capacity_bytes(events)
    assert (found.runs_bytes, found.fails_bytes) == (runs, fails)
    assert (found.out_of_memory is None) == (runs == 0)


def test_more_memory_is_not_always_better() -> None:
    # 8 and 22 MiB leave segments of 20 and 22 in the cache. With 66 the 24 fit beside them; the 10 are cut from the 20,
    # so only the 22 can go back for the last 24, and 20 + 24 + 24 are 68. With 64 the first 24 had emptied the cache.
    events = [take(1, 8 * MIB), *give(1), take(2, 22 * MIB), *give(2)]
    events += [take(3, 24 * MIB), take(4, 10 * MIB), take(5, 24 * MIB)]
    runs = {mib for mib in range(50, 92, 2) if replay(events, capacity_bytes=mib * MIB).out_of_memory is None}
    assert runs == set(range(58, 92, 2)) - {66}
    found = smallest_capacity_bytes(events)
    assert (found.runs_bytes, found.fails_bytes) == (58 * MIB, 56 * MIB)
