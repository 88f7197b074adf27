"""A recording of a real allocator: what happened, and what stood there at its end.

The form of torch.cuda.memory._snapshot(), with what is not needed left out (frames, times). Sizes of `alloc` and
`free_*` are what was asked for; those of blocks and segments are rounded.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from capienza.allocator.settings import Settings
from capienza.allocator.sizes import DIVISION_INTERVALS, LARGE_SEGMENT

Size = Annotated[int, msgspec.Meta(ge=0, lt=2**60)]
Address = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]

ALLOCATED = "active_allocated"
WAITING = ("active_pending_free", "active_awaiting_free")
"""Let go by the program while another stream still uses it; the second name is that of older releases."""


class SnapshotBlock(msgspec.Struct):
    """A stretch of a segment; blocks tile it in order."""

    size: Size
    state: str
    requested_size: Size = 0


class Segment(msgspec.Struct):
    """A segment at the end of the recording; of an expandable one, each range that is mapped."""

    address: Address
    total_size: Size
    blocks: list[SnapshotBlock]
    stream: Number = 0
    segment_type: str = "large"
    is_expandable: bool = False
    device: int = 0
    segment_pool_id: tuple[int, int] = (0, 0)


class Entry(msgspec.Struct):
    """One line of the history. Of `oom`, `size` is what was asked for and `device_free` what there was."""

    action: str
    size: Size
    addr: Address = 0
    stream: Number = 0
    device_free: Size = 0
    pool_id: tuple[int, int] = (0, 0)


class Snapshot(msgspec.Struct):
    """The dictionary that _dump_snapshot writes; a trace for each device."""

    segments: list[Segment]
    device_traces: list[list[Entry]] = []
    allocator_settings: dict[str, Any] = {}


class Reduced(msgspec.Struct):
    """The same as arrays, in JSON; the tuples below say what stands where."""

    segments: list[tuple[Address, Size, Number, str, list[tuple[Address, Size, Size, str]]]]
    traces: list[list[tuple[str, Address, Size, Number]]]
    allocator_settings: dict[str, Any] = {}

    def snapshot(self) -> Snapshot:
        """In the full form."""
        segments = [
            Segment(
                address, total, [SnapshotBlock(size, state, asked) for _, size, asked, state in blocks], stream, kind
            )
            for address, total, stream, kind, blocks in self.segments
        ]
        traces = [[Entry(act, size, address, stream) for act, address, size, stream in one] for one in self.traces]
        return Snapshot(segments=segments, device_traces=traces, allocator_settings=self.allocator_settings)


def recorded_settings(found: dict[str, Any]) -> Settings:
    """The options a snapshot names; what it does not name, or not in the known form, is PyTorch's default."""
    threshold = found.get("garbage_collection_threshold")
    return Settings(
        expandable_segments=found.get("expandable_segments") is True,
        max_split_bytes=_size(found.get("max_split_size")),
        max_non_split_rounding_bytes=_size(found.get("max_non_split_rounding_size")) or LARGE_SEGMENT,
        garbage_collection_threshold=threshold if isinstance(threshold, float) and 0 < threshold < 1 else 0.0,
        roundup_power2_divisions=_divisions(found.get("roundup_power2_divisions")),
        large_segment_bytes=_size(found.get("large_segment_size")) or LARGE_SEGMENT,
    )


def _size(value: Any) -> int | None:
    """A size; -1 and what is none are "not set"."""
    return value if isinstance(value, int) and 0 < value < 2**60 else None


def _divisions(found: Any) -> tuple[int, ...]:
    """From {"1": 0, "2": 0, "4": 0, ...}: a number for each interval, in MiB; all 0 means none."""
    if not isinstance(found, dict) or len(found) != DIVISION_INTERVALS:
        return ()
    try:
        divisions = tuple(int(found[key]) for key in sorted(found, key=int))
    except (TypeError, ValueError):
        return ()
    return divisions if any(divisions) else ()
