"""Real recordings: the model must ask for the same segments, and choose the very block, each time."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.programs import EMPTY, MIB, give, programs, take
from capienza.allocator.compare import GIVES, TAKES, compare
from capienza.allocator.events import BEGIN_POOL, END_POOL, Event
from capienza.allocator.program import recorded_events
from capienza.allocator.recording import Entry, Segment, SnapshotBlock, recorded_settings
from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.allocator.snapshot import parse_snapshot, read_snapshot
from capienza.allocator.writing import make_snapshot
from capienza.errors import InputError

RECORDINGS = {
    # name: cudaMalloc calls, highest reserved, allocations
    "Wedsonlin__results__medium_1024_inference_memory_snapshot": (0, 3204448256, 1280),
    "Wedsonlin__results__medium_1024_training_memory_snapshot": (0, 25178406912, 7591),
    "Wedsonlin__results__medium_128_inference_memory_snapshot": (0, 1763704832, 1280),
    "Wedsonlin__results__medium_128_training_memory_snapshot": (0, 7235174400, 6526),
    "Wedsonlin__results__medium_256_inference_memory_snapshot": (0, 1864368128, 1280),
    "Wedsonlin__results__medium_256_training_memory_snapshot": (0, 9265217536, 6624),
    "Wedsonlin__results__medium_512_inference_memory_snapshot": (0, 1981808640, 1666),
    "Wedsonlin__results__medium_512_training_memory_snapshot": (1, 12660506624, 7591),
    "silmont2000__mem_snapshot": (9, 3781165056, 36),
    "silmont2000__memory_forward_bf16_128": (0, 861929472, 937),
    "silmont2000__memory_forward_fp32_128": (0, 610271232, 681),
}


@pytest.fixture
def recordings(shared: Path) -> Path:
    """The folder of recordings."""
    folder = shared / "data" / "papers" / "snapshots"
    if not folder.is_dir():
        pytest.skip("the recordings are not beside the project")
    return folder


def test_every_recording_is_in_the_table(recordings: Path) -> None:
    assert {path.name for path in recordings.iterdir()} == {f"{name}.json.gz" for name in RECORDINGS}


@pytest.mark.parametrize("name", RECORDINGS)
def test_model_and_record_agree(recordings: Path, name: str) -> None:
    snapshot = read_snapshot(recordings / f"{name}.json.gz")
    (entries,) = snapshot.device_traces
    options = recorded_settings(snapshot.allocator_settings)
    found = compare(snapshot.segments, entries, options)
    mallocs, reserved, allocations = RECORDINGS[name]
    assert found.is_same
    assert (found.recorded.device_allocations, found.modelled.device_allocations) == (mallocs, mallocs)
    assert found.modelled.peak_reserved_bytes == found.recorded.peak_reserved_bytes == reserved
    assert found.same_addresses == found.allocations == allocations
    assert found.lost_blocks == 0


@pytest.mark.parametrize("name", RECORDINGS)
def test_its_program_runs_from_an_empty_device(recordings: Path, name: str) -> None:
    snapshot = read_snapshot(recordings / f"{name}.json.gz")
    (entries,) = snapshot.device_traces
    found = compare(snapshot.segments, entries, Settings())
    again = replay(recorded_events(snapshot.segments, entries, Settings()))
    assert again.peaks.requested_bytes == found.peak_requested_bytes
    # Blocks lie elsewhere: an unsplit end of up to 1 MiB comes or goes with each.
    assert again.peaks.allocated_bytes == pytest.approx(found.peak_allocated_bytes, rel=0.01)


def written(
    events: list[Event], options: Settings, capacity: int | None = None
) -> tuple[list[Segment], list[Entry], Settings]:
    """What the model writes, read back."""
    snapshot = parse_snapshot(pickle.dumps(make_snapshot(events, options, capacity)))
    return snapshot.segments, snapshot.device_traces[0], recorded_settings(snapshot.allocator_settings)


OPTIONS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:20",
    "roundup_power2_divisions:4",
    "large_segment_size_mb:34",
    "expandable_segments:True,max_split_size_mb:25",
)


@given(events=programs(), text=st.sampled_from(OPTIONS), data=st.data())
@settings(max_examples=200)
def test_what_is_written_is_read_and_agrees_from_any_line_on(
    events: list[Event], text: str, data: st.DataObject
) -> None:
    options = parse_settings(text)
    if not any(size for _, _, size, _ in events):
        return
    segments, entries, read = written(events, options)
    assert read == options
    cut = data.draw(st.integers(0, len(entries) - 1))
    # Between a call to the device and the allocation it is for, no snapshot begins.
    if cut and entries[cut - 1].action.startswith("segment"):
        cut = 0
    found = compare(segments, entries[cut:], options)
    assert found.is_same
    assert found.lost_blocks == 0
    if cut == 0:
        assert found.same_addresses == found.allocations
        assert found.modelled.peak_reserved_bytes == replay(events, options).peaks.reserved_bytes


@given(events=programs(lets_go=False), share=st.floats(0.4, 1))
def test_a_record_of_memory_pressure_agrees(events: list[Event], share: float) -> None:
    capacity = int(share * replay(events).peaks.reserved_bytes)
    segments, entries, options = written(events, Settings(), capacity)
    found = compare(segments, entries, options)
    assert found.is_same
    assert found.out_of_memory_events == (replay(events, capacity_bytes=capacity).out_of_memory is not None)


@given(events=programs(), text=st.sampled_from(OPTIONS))
def test_the_program_of_a_whole_record_is_the_program(events: list[Event], text: str) -> None:
    options = parse_settings(text)
    if not any(size for _, _, size, _ in events):
        return
    again = replay(recorded_events(*written(events, options)), options)
    once = replay(events, options)
    assert again.peaks.requested_bytes == once.peaks.requested_bytes
    assert again.peaks.reserved_bytes == once.peaks.reserved_bytes
    # An emptied cache that held nothing leaves no line.
    assert (again.device_allocations, again.device_frees) == (once.device_allocations, once.device_frees)


def test_private_pools_are_recorded() -> None:
    inside: list[Event] = [(BEGIN_POOL, 3, 0, 0), take(2, 20 * MIB), (END_POOL, 3, 0, 0)]
    events = [take(1, 20 * MIB), *give(1), *inside, take(3, 18 * MIB)]
    segments, entries, options = written(events, Settings())
    assert [one.segment_pool_id for one in segments] == [(0, 0), (0, 3)]
    assert compare(segments, entries, options).is_same
    assert compare(segments, entries[3:], options).is_same
    assert replay(recorded_events(segments, entries, options)).device_allocations == 2


def test_a_difference_is_told_with_its_line() -> None:
    # The record gives 4 MiB its own segment, which PyTorch does not.
    entries = [
        Entry("segment_alloc", 4 * MIB, 4096), Entry("alloc", 4 * MIB, 4096),
        Entry("snapshot", 0), Entry("user_defined", 0), Entry("oom", 5, device_free=7), Entry("free_requested", 4, 99),
    ]  # fmt: skip
    segments = [Segment(4096, 4 * MIB, [SnapshotBlock(4 * MIB, "active_allocated", 4 * MIB)])]
    found = compare(segments, entries, Settings())
    assert not found.is_same
    (one,) = found.differences
    assert (one.entry, one.recorded, one.modelled) == (
        1, (("segment_alloc", 4 * MIB),), (("segment_alloc", 20 * MIB),),
    )  # fmt: skip
    assert (found.segments_only_recorded, found.segments_only_modelled) == ((4 * MIB,), (20 * MIB,))
    assert (found.lost_blocks, found.out_of_memory_events) == (1, 1)
    assert found.unknown_actions == (("user_defined", 1),)


def test_an_emptied_cache_is_seen() -> None:
    segments, entries, options = written([take(1, 20 * MIB), take(2, 1), *give(1), EMPTY, take(3, 5)], Settings())
    found = compare(segments, entries, options)
    assert found.is_same
    assert (found.recorded.device_frees, found.modelled.device_frees) == (1, 1)


ADDRESSES = st.sampled_from((0, 512, 1024, 4096, MIB, 2 * MIB, 20 * MIB, 2**61))
LINES = st.builds(
    Entry,
    st.sampled_from(("alloc", "free_requested", "free_completed", *TAKES, *GIVES)),
    st.sampled_from((0, 1, 512, MIB, 2 * MIB, 3 * MIB, 20 * MIB, 2**50 - 1)),
    ADDRESSES,
    st.integers(0, 1),
    pool_id=st.sampled_from(((0, 0), (0, 0), (0, 1), (-5, 2**70))),
)


@st.composite
def odd_segments(draw: st.DrawFn) -> Segment:
    """Any segment; its blocks mostly tile it."""
    sizes = draw(st.lists(st.sampled_from((512, MIB, 2 * MIB, 20 * MIB)), min_size=1, max_size=3))
    states = st.sampled_from(("inactive", "active_allocated", "active_pending_free", "odd"))
    blocks = [SnapshotBlock(size, draw(states), draw(st.integers(0, size))) for size in sizes]
    kind = draw(st.sampled_from(("small", "large", "odd")))
    return Segment(draw(ADDRESSES), sum(sizes), blocks, draw(st.integers(0, 1)), kind, draw(st.booleans()))


@given(
    segments=st.lists(odd_segments(), max_size=3), entries=st.lists(LINES, max_size=15), text=st.sampled_from(OPTIONS)
)
@settings(max_examples=500)
def test_histories_that_make_no_sense_do_no_harm(segments: list[Segment], entries: list[Entry], text: str) -> None:
    options = parse_settings(text)
    try:
        found = compare(segments, entries, options)
        events = recorded_events(segments, entries, options)
    except InputError:
        return
    replay(events, options)
    assert found.entries == len(entries)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_split_size", 1), ("max_split_size", "20"), ("large_segment_size", 5), ("garbage_collection_threshold", 2),
        ("garbage_collection_threshold", None), ("roundup_power2_divisions", {"1": 3}), ("roundup_power2_divisions", 4),
    ],
)  # fmt: skip
def test_options_that_pytorch_has_not(key: str, value: object) -> None:
    with pytest.raises(InputError, match=key):
        recorded_settings({key: value})


@given(events=programs(), text=st.sampled_from(OPTIONS), share=st.none() | st.floats(0.3, 1))
def test_every_block_lies_in_memory_that_the_device_gave_and_alone(
    events: list[Event], text: str, share: float | None
) -> None:
    options = parse_settings(text)
    capacity = None if share is None else int(share * replay(events, options).peaks.reserved_bytes)
    mapped: dict[int, int] = {}
    alive: dict[int, int] = {}
    for line in make_snapshot(events, options, capacity)["device_traces"][0]:
        action, start, end = line["action"], line.get("addr", 0), line.get("addr", 0) + line["size"]
        if action in TAKES:
            assert line["size"] % (2 * MIB) == 0
            assert not overlapping(mapped, start, end)
            mapped[start] = end
        elif action in GIVES:
            assert not overlapping(alive, start, end)
            for low in overlapping(mapped, start, end):
                high = mapped.pop(low)
                mapped |= {one: other for one, other in ((low, start), (end, high)) if one < other}
        elif action == "alloc":
            assert not overlapping(alive, start, end)
            held = sum(min(end, mapped[low]) - max(start, low) for low in overlapping(mapped, start, end))
            assert held == line["size"]
            alive[start] = end
        elif action == "free_completed":
            assert alive.pop(start) == end


def overlapping(ranges: dict[int, int], start: int, end: int) -> list[int]:
    """The ranges that share a byte with this one."""
    return [low for low, high in ranges.items() if low < end and start < high]
