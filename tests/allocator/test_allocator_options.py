"""Each option against sequences worked out by hand from the source; the rule stands beside each."""

from __future__ import annotations

import pytest

from allocator.programs import EMPTY, KIB, MIB, give, take
from capienza.allocator.events import Event
from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.allocator.sizes import rounded_bytes

SPLIT_20 = parse_settings("max_split_size_mb:20")
HOLE = [take(1, 10 * MIB), take(2, 10 * MIB), take(3, 15 * MIB), *give(1)]
EXPANDABLE = parse_settings("expandable_segments:True")


def test_oversize_blocks_are_never_split() -> None:
    # should_split: only below max_split_size
    found = replay([take(1, 30 * MIB), *give(1), take(2, 24 * MIB)], SPLIT_20)
    assert (found.device_allocations, found.final_allocated_bytes) == (1, 30 * MIB)


def test_oversize_blocks_are_kept_from_small_requests() -> None:
    # get_free_block: a request below max_split_size does not get a block of it
    found = replay([take(1, 30 * MIB), *give(1), take(2, 15 * MIB)], SPLIT_20)
    assert found.peaks.reserved_bytes == 46 * MIB


def test_oversize_blocks_are_rounded_up_by_less_than_20_mib() -> None:
    # get_free_block: not from size + max_non_split_rounding_size on
    assert replay([take(1, 44 * MIB), *give(1), take(2, 24 * MIB + 1)], SPLIT_20).device_allocations == 1
    assert replay([take(1, 44 * MIB), *give(1), take(2, 24 * MIB)], SPLIT_20).device_allocations == 2
    wider = parse_settings("max_split_size_mb:20,max_non_split_rounding_mb:21")
    assert replay([take(1, 44 * MIB), *give(1), take(2, 24 * MIB)], wider).device_allocations == 1


def test_pressure_gives_back_one_oversize_block_that_is_large_enough() -> None:
    # release_available_cached_blocks: the smallest of at least the request; the rest of the cache stays
    events = [take(1, 80 * MIB), take(2, 30 * MIB), *give(1, 2), take(3, 50 * MIB)]
    found = replay(events, SPLIT_20, capacity_bytes=120 * MIB)
    assert (found.device_frees, found.final_reserved_bytes) == (1, 80 * MIB)
    assert replay(events, capacity_bytes=120 * MIB).device_allocations == 2  # by default 80 MiB are split


def test_pressure_gives_back_several_oversize_blocks_from_the_largest() -> None:
    # 40 and 30 MiB make 50; 22 stay
    events = [take(1, 22 * MIB), take(2, 30 * MIB), take(3, 40 * MIB), *give(1, 2, 3), take(4, 50 * MIB)]
    found = replay(events, SPLIT_20, capacity_bytes=100 * MIB)
    assert (found.device_frees, found.final_reserved_bytes) == (2, 72 * MIB)


def test_pressure_gives_back_all_when_oversize_blocks_do_not_make_it() -> None:
    # 22 MiB are given back in vain (they stay so), then the whole cache: 16 and 2 MiB more
    events = [take(1, 22 * MIB), take(2, 15 * MIB), take(3, 512), *give(1, 2, 3), take(4, 39 * MIB)]
    found = replay(events, SPLIT_20, capacity_bytes=40 * MIB)
    assert (found.device_frees, found.final_reserved_bytes) == (3, 40 * MIB)


def collected(last_mib: int) -> tuple[int, int]:
    """Segments given back, and reserved at the end, with a limit of 200 MiB and a threshold of 80.

    1, 2, 3 take 20 MiB each (searches 1 to 3). 1 is cached at 3, 2 at 4. Search 5 makes 72 + x MiB; at search 6 the
    ages are 3 and 2.
    """
    settings = Settings(garbage_collection_threshold=0.4, allowed_bytes=200 * MIB)
    events = [
        take(1, 20 * MIB), take(2, 20 * MIB), take(3, 20 * MIB), *give(1),
        take(4, 12 * MIB, 1), *give(2), take(5, last_mib * MIB), take(6, 40 * MIB),
    ]  # fmt: skip
    found = replay(events, settings)
    return found.device_frees, found.final_reserved_bytes // MIB


def test_garbage_collection_takes_the_older_half_first() -> None:
    # 72 + 26 = 98: 18 over the threshold. Average age 2.5: the older one is enough.
    assert collected(26) == (1, 98 - 20 + 40)
    # 72 + 30 = 102: 22 over it, so the average of what is left (2) is taken too.
    assert collected(30) == (2, 102 - 40 + 40)


def test_garbage_collection_needs_a_limit() -> None:
    events = [take(1, 20 * MIB), *give(1), take(2, 30 * MIB)]
    assert replay(events, Settings(garbage_collection_threshold=0.1)).device_frees == 0


def test_limit_of_a_process() -> None:
    # alloc_block: total + size > allowed fails before the device is asked
    events = [take(1, 20 * MIB), take(2, 30 * MIB)]
    found = replay(events, Settings(allowed_bytes=49 * MIB), capacity_bytes=10**12)
    assert found.out_of_memory is not None
    assert (found.out_of_memory.allowed_bytes, found.out_of_memory.event) == (49 * MIB, 1)
    assert replay(events, Settings(allowed_bytes=50 * MIB)).out_of_memory is None


@pytest.mark.parametrize(
    ("size", "divisions", "rounded"),
    [
        # roundup_power2_next_division above 512 B x divisions, else multiples of 512 B
        (1200, "4", 1536),
        (2048, "4", 2048),
        (2049, "4", 2560),
        (5000, "4", 5120),
        (3 * MIB, "4", 3 * MIB),
        (2 * MIB + 1, "4", 2 * MIB + 512 * KIB),
        (4 * MIB, "4", 4 * MIB),
        (5000, "1", 5120),
        (4097, "2", 6144),
        # intervals begin at the named MiB; the first also counts below, > above the last
        (255 * MIB, "[256:1,512:2,1024:4,>:8]", 255 * MIB),
        (300 * MIB + 1, "[256:1,512:2,1024:4,>:8]", 300 * MIB + 512),
        (600 * MIB, "[256:1,512:2,1024:4,>:8]", 768 * MIB),
        (1100 * MIB, "[256:1,512:2,1024:4,>:8]", 1280 * MIB),
        (2100 * MIB, "[256:1,512:2,1024:4,>:8]", 2304 * MIB),
        (100 * 2**30, "[256:1,512:2,1024:4,>:8]", 104 * 2**30),
        (5000, "[1:2,2:0]", 6144),
        # the settings and sizes of PyTorch's own test_allocator_settings (test/test_cuda.py)
        (84 * MIB, "4", 96 * MIB),
        (84 * MIB, "[64:8,128:2,256:2,512:2,1024:1,>:1]", 88 * MIB),
        (400 * MIB, "[64:8,128:2,256:2,512:2,1024:1,>:1]", 512 * MIB),
        (2 * MIB + 1, "[1:2,2:0]", 2 * MIB + 512),
    ],
)
def test_rounding_to_parts_of_a_power_of_two(size: int, divisions: str, rounded: int) -> None:
    settings = parse_settings(f"roundup_power2_divisions:{divisions}")
    assert rounded_bytes(size, settings.roundup_power2_divisions) == rounded
    assert replay([take(1, size)], settings).peaks.requested_bytes == size


def test_size_of_large_segments() -> None:
    settings = parse_settings("large_segment_size_mb:32")
    found = replay([take(1, 2 * MIB), take(2, 9 * MIB), take(3, 20 * MIB)], settings)
    assert (found.device_allocations, found.peaks.reserved_bytes) == (1, 32 * MIB)


@pytest.mark.parametrize(
    ("events", "reserved_mib", "maps", "unmaps"),
    [
        # pages of 2 MiB for small blocks, of 20 MiB for large ones
        ([take(1, 1)], 2, 1, 0),
        ([take(1, MIB + 1)], 20, 1, 0),
        ([take(1, 41 * MIB)], 60, 1, 0),
        # try_allocate_expandable_block: the free end and one page more, where cudaMalloc would give 40 MiB
        ([take(1, 30 * MIB), *give(1), take(2, 60 * MIB)], 60, 2, 0),
        # should_split: expandable blocks are split from 512 B on, so the 20th MiB is still there
        ([take(1, 19 * MIB), take(2, MIB + 512)], 40, 2, 0),
        ([take(1, 18 * MIB), take(2, 2 * MIB)], 20, 1, 0),
        # unmap_block: whole pages inside the free block; 10 to 20 MiB of the first page stay
        ([take(1, 10 * MIB), take(2, 40 * MIB), *give(2), EMPTY], 60, 2, 1),
        # and what follows grows from there: 30 MiB need one page more than the 10 that are left
        ([take(1, 10 * MIB), take(2, 40 * MIB), *give(2), EMPTY, take(3, 30 * MIB)], 60, 3, 1),
        # find_expandable_block fills the gap before the end: 1 page of 20 again between 1 and 3
        ([take(1, 20 * MIB), take(2, 20 * MIB), take(3, 20 * MIB), *give(2), EMPTY, take(4, 15 * MIB)], 60, 4, 1),
        # ... unless what is asked for does not fit into the gap
        ([take(1, 20 * MIB), take(2, 20 * MIB), take(3, 20 * MIB), *give(2), EMPTY, take(4, 25 * MIB)], 80, 4, 1),
        # get_free_block: the end counts with the room it can grow into, so 3 MiB go to the hole of 10 MiB although 5
        # are free at the end; the next 10 then need a page
        ([*HOLE, take(4, 3 * MIB), take(5, 10 * MIB)], 60, 3, 0),
    ],
)  # fmt: skip
def test_expandable_segments(events: list[Event], reserved_mib: int, maps: int, unmaps: int) -> None:
    found = replay(events, EXPANDABLE)
    assert found.peaks.reserved_bytes == reserved_mib * MIB
    assert (found.device_allocations, found.device_frees) == (maps, unmaps)


def test_expandable_segments_under_pressure() -> None:
    # A hole of 30 MiB in the middle: 20 of it are whole pages, which serve at the end instead.
    events = [take(1, 10 * MIB), take(2, 30 * MIB), take(3, 20 * MIB), *give(2), take(4, 35 * MIB)]
    assert replay(events, EXPANDABLE).peaks.reserved_bytes == 100 * MIB
    found = replay(events, EXPANDABLE, capacity_bytes=80 * MIB)
    assert (found.out_of_memory, found.final_reserved_bytes, found.device_frees) == (None, 80 * MIB, 1)
    assert replay(events, EXPANDABLE, capacity_bytes=80 * MIB - 1).out_of_memory is not None
    # cudaMalloc's segments of 10, 30 and 20 MiB waste nothing: the 30 go back for 36.
    assert replay(events, capacity_bytes=66 * MIB).out_of_memory is None


def test_no_fragmentation_is_told_for_expandable_segments() -> None:
    assert replay([take(1, 30 * MIB)], EXPANDABLE).peaks.inactive_split_at_reserved_bytes is None
