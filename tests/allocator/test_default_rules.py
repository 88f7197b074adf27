"""Sequences worked out by hand from CUDACachingAllocator.cpp, default settings; the rule stands beside each."""

from __future__ import annotations

import pytest

from allocator.programs import EMPTY, KIB, MIB, give, take
from capienza.allocator.events import BEGIN_POOL, END_POOL, FREE_REQUESTED, MARK, RELEASE_POOL, Event
from capienza.allocator.replay import replay
from capienza.allocator.sizes import segment_bytes


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        # get_allocation_size: up to kSmallSize 2 MiB; below kMinLargeAlloc 20 MiB; else up to a multiple of 2 MiB
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
        (21 * MIB, 22 * MIB),
    ],
)
def test_size_of_a_segment(size: int, segment: int) -> None:
    assert segment_bytes(size) == segment


@pytest.mark.parametrize(
    ("events", "reserved", "allocated", "mallocs"),
    [
        # round_size: a byte takes 512; small blocks are cut from a segment of 2 MiB
        ([take(1, 1)], 2 * MIB, 512, 1),
        ([take(1, 513)], 2 * MIB, 1024, 1),
        ([take(1, 1), take(2, MIB)], 2 * MIB, MIB + 512, 1),
        # 2 MiB - 512 B - 1 MiB are left: too little for another MiB
        ([take(1, 1), take(2, MIB), take(3, MIB)], 4 * MIB, 2 * MIB + 512, 2),
        # one byte over 1 MiB is a large block, and large blocks share a segment of 20 MiB
        ([take(1, MIB + 1), take(2, 10 * MIB)], 20 * MIB, 11 * MIB + 512, 1),
        # 20 MiB - 10 MiB - 1 MiB - 512 B are left: too little for 10 MiB less 512 B, which is below 10 MiB
        ([take(1, MIB + 1), take(2, 10 * MIB), take(3, 10 * MIB - 512)], 40 * MIB, 21 * MIB, 2),
        # should_split: of a large block 1 MiB is not split off, more is
        ([take(1, 19 * MIB)], 20 * MIB, 20 * MIB, 1),
        ([take(1, 19 * MIB - 512)], 20 * MIB, 19 * MIB - 512, 1),
        # of a small one 512 B are
        ([take(1, MIB), take(2, MIB - 512), take(3, 512)], 2 * MIB, 2 * MIB, 1),
        # an empty tensor gets nothing
        ([take(1, 0)], 0, 0, 0),
    ],
)
def test_rounding_and_splitting(events: list[Event], reserved: int, allocated: int, mallocs: int) -> None:
    found = replay(events)
    assert (found.peaks.reserved_bytes, found.peaks.allocated_bytes) == (reserved, allocated)
    assert found.device_allocations == mallocs


def test_the_smallest_block_that_fits_then_the_lowest_address() -> None:
    # Three segments, 30, 24 and 24 MiB, all cached: 23.5 MiB take the first of 24, 24 the other, 25 the one of 30.
    events = [take(1, 30 * MIB), take(2, 24 * MIB), take(3, 24 * MIB), *give(1, 2, 3)]
    again = [take(4, 23 * MIB + 512 * KIB), take(5, 24 * MIB), take(6, 25 * MIB)]
    found = replay([*events, *again])
    assert found.device_allocations == 3
    # 23.5 MiB keep the half MiB behind them; 25 leave 5 MiB of 30 as a block.
    assert found.final_allocated_bytes == (24 + 24 + 25) * MIB


def test_free_neighbours_are_joined_and_only_whole_segments_go_back() -> None:
    three = [take(1, 5 * MIB), take(2, 5 * MIB), take(3, 5 * MIB)]
    assert replay([*three, *give(2, 1), EMPTY]).device_frees == 0
    found = replay([*three, *give(2, 1, 3), EMPTY])
    assert (found.device_frees, found.final_reserved_bytes) == (1, 0)
    # Joined, the 20 MiB serve a request that none of the parts could.
    assert replay([*three, *give(2, 1, 3), take(4, 20 * MIB)]).device_allocations == 1


def test_streams_do_not_share() -> None:
    found = replay([take(1, 20 * MIB, 0), *give(1), take(2, 20 * MIB, 7)])
    assert (found.device_allocations, found.peaks.reserved_bytes) == (2, 40 * MIB)


def test_a_block_let_go_waits_for_the_other_stream() -> None:
    # free after record_stream: no longer allocated, still active, and not given out again before it is completed.
    waits: Event = (FREE_REQUESTED, 1, 0, 0)
    found = replay([take(1, 20 * MIB), waits, take(2, 20 * MIB)])
    assert found.device_allocations == 2
    assert (found.peaks.allocated_bytes, found.peaks.active_bytes) == (20 * MIB, 40 * MIB)
    assert replay([take(1, 20 * MIB), waits, *give(1), take(2, 20 * MIB)]).device_allocations == 1


def test_memory_pressure_waits_for_blocks_let_go() -> None:
    # release_cached_blocks: first synchronize_and_free_events, then release.
    events = [take(1, 20 * MIB), (FREE_REQUESTED, 1, 0, 0), take(2, 30 * MIB), *give(1, 2)]
    found = replay(events, capacity_bytes=30 * MIB)
    assert found.out_of_memory is None
    assert (found.device_frees, found.final_reserved_bytes) == (1, 30 * MIB)


def test_a_block_that_was_completed_early_is_not_completed_in_other_hands() -> None:
    # Emptying the cache completes 1; 2 gets its memory and is let go; what ends then is the wait for 1, not for 2.
    gone = [(FREE_REQUESTED, 1, 0, 0), EMPTY, take(2, 512), (FREE_REQUESTED, 2, 0, 0), *give(1)]
    found = replay([take(1, 512), take(9, 512), *gone, take(3, 512)])
    assert found.peaks.active_bytes == 3 * 512


def test_cached_segments_go_back_under_pressure_and_then_memory_ends() -> None:
    events = [take(1, 20 * MIB), *give(1), take(2, 30 * MIB)]
    assert replay(events).peaks.reserved_bytes == 50 * MIB
    found = replay(events, capacity_bytes=40 * MIB)
    assert (found.out_of_memory, found.peaks.reserved_bytes, found.device_frees) == (None, 30 * MIB, 1)
    failed = replay(events, capacity_bytes=30 * MIB - 1).out_of_memory
    assert failed is not None
    assert (failed.event, failed.reserved_bytes) == (2, 0)


def test_figures_of_the_message() -> None:
    events: list[Event] = [(MARK, 0, 0, 0), take(1, 5 * MIB), (MARK, 1, 0, 0), take(2, 6 * MIB), take(3, 12 * MIB - 5)]
    found = replay(events, capacity_bytes=24 * MIB, phases=("forward", "backward"))
    failed = found.out_of_memory
    assert failed is not None
    # 5 and 6 MiB lie in one segment of 20; 9 are left in it and 4 on the device.
    assert (failed.event, failed.phase, failed.requested_bytes, failed.tried_bytes) == (
        4, "backward", 12 * MIB - 5, 12 * MIB,
    )  # fmt: skip
    assert (failed.allocated_bytes, failed.reserved_bytes) == (11 * MIB, 20 * MIB)
    assert (failed.free_bytes, failed.reserved_unallocated_bytes) == (4 * MIB, 9 * MIB)
    assert found.events == 4


def test_no_device_serves_an_exabyte() -> None:
    found = replay([take(1, 512), take(2, 2**60)])
    assert found.out_of_memory is not None
    assert found.out_of_memory.event == 1


def test_peaks_of_phases() -> None:
    events: list[Event] = [
        take(1, 30 * MIB),
        (MARK, 0, 0, 0), take(2, 40 * MIB), *give(2),
        (MARK, 1, 0, 0), take(3, 2 * MIB),
        (MARK, 0, 0, 0),
    ]  # fmt: skip
    found = replay(events, phases=("forward", "backward"))
    assert [(one.name, one.first_event, one.allocated_bytes // MIB) for one in found.phases] == [
        ("", 0, 30), ("forward", 1, 70), ("backward", 4, 32), ("forward", 6, 32),
    ]  # fmt: skip
    assert [one.reserved_bytes // MIB for one in found.phases] == [30, 70, 70, 70]
    assert (found.peaks.allocated_event, found.peaks.reserved_event) == (2, 2)


def test_fragmentation_at_the_peak() -> None:
    # 4 of 20 MiB live in the first segment; the second is cached whole; the third makes the peak.
    events = [take(1, 4 * MIB), take(2, 30 * MIB), *give(2), take(3, 40 * MIB)]
    peaks = replay(events).peaks
    assert peaks.reserved_bytes == 90 * MIB
    assert peaks.reserved_bytes - peaks.allocated_at_reserved_bytes == 46 * MIB
    assert peaks.inactive_split_at_reserved_bytes == 16 * MIB


def test_private_pools_keep_their_memory() -> None:
    begin, end, release = (BEGIN_POOL, 1, 0, 0), (END_POOL, 1, 0, 0), (RELEASE_POOL, 1, 0, 0)
    inside = [begin, take(1, 20 * MIB), *give(1), end]
    # Its cache serves nobody outside, and empty_cache leaves it, until nothing holds the pool.
    found = replay([*inside, take(2, 20 * MIB), *give(2), EMPTY])
    assert (found.device_allocations, found.final_reserved_bytes) == (2, 20 * MIB)
    assert replay([*inside, release, EMPTY]).final_reserved_bytes == 0
    # Opened again, it is used again.
    assert replay([*inside, begin, take(2, 20 * MIB), end]).device_allocations == 1
    failed = replay([*inside, take(2, 30 * MIB)], capacity_bytes=40 * MIB).out_of_memory
    assert failed is not None
    assert (failed.private_pools_bytes, failed.reserved_unallocated_bytes) == (20 * MIB, 0)


def test_nothing_is_given_back_while_a_graph_is_captured() -> None:
    before = [take(1, 20 * MIB), *give(1)]
    capture: list[Event] = [(BEGIN_POOL, 1, 1, 0), take(2, 30 * MIB)]
    assert replay([*before, *capture], capacity_bytes=40 * MIB).out_of_memory is not None
    plain: list[Event] = [(BEGIN_POOL, 1, 0, 0), take(2, 30 * MIB)]
    assert replay([*before, *plain], capacity_bytes=40 * MIB).out_of_memory is None
