"""A recording of a real allocator: what happened, and what stood there at its end.

The form of torch.cuda.memory._snapshot(), with what is not needed left out (frames, times). Sizes of `alloc` and
`free_*` are what was asked for; those of blocks and segments are rounded.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from capienza.allocator.settings import Settings
from capienza.allocator.sizes import DIVISION_INTERVALS, LARGE_SEGMENT, MIB, SMALLEST_OWN_SEGMENT
from capienza.errors import InputError, shortened, template

BAD_OPTION = template(
    "snapshot.bad-option",
    "its allocator_settings say {key}: {found}, which PyTorch does not accept",
    "The snapshot is damaged, or was edited; record it again.",
)

Size = Annotated[int, msgspec.Meta(ge=0, lt=2**50)]
Extent = Annotated[int, msgspec.Meta(gt=0, lt=2**50)]
"""A size that is not 0."""
Address = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]

ALLOCATED = "active_allocated"
WAITING = ("active_pending_free", "active_awaiting_free")
"""Let go by the program while another stream still uses it; the second name is that of older releases."""


class SnapshotBlock(msgspec.Struct):
    """A stretch of a segment; blocks tile it in order."""

    size: Extent
    state: str
    requested_size: Size = 0


class Segment(msgspec.Struct):
    """A segment at the end of the recording; of an expandable one, each range that is mapped."""

    address: Address
    total_size: Extent
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

    segments: list[tuple[Address, Extent, Number, str, list[tuple[Address, Extent, Size, str]]]]
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
    """The options a snapshot names; what it does not name is PyTorch's default.

    Raises `InputError` for a value that PyTorch does not accept either.
    """
    large = _size(found, "large_segment_size", SMALLEST_OWN_SEGMENT + MIB) or LARGE_SEGMENT
    threshold = found.get("garbage_collection_threshold", 0.0)
    if not isinstance(threshold, float | int) or not 0 <= threshold < 1:
        raise InputError(BAD_OPTION(key="garbage_collection_threshold", found=repr(threshold)))
    return Settings(
        expandable_segments=found.get("expandable_segments") is True,
        max_split_bytes=_size(found, "max_split_size", large),
        max_non_split_rounding_bytes=_size(found, "max_non_split_rounding_size", large) or large,
        garbage_collection_threshold=float(threshold),
        roundup_power2_divisions=_divisions(found.get("roundup_power2_divisions")),
        large_segment_bytes=large,
    )


def _size(found: dict[str, Any], key: str, least: int) -> int | None:
    """A size of at least this; -1 is "not set", and so is the largest number there is."""
    value = found.get(key)
    if value is None or value == -1 or (isinstance(value, int) and value >= 2**60):
        return None
    if not isinstance(value, int) or value < least or value % MIB:
        raise InputError(BAD_OPTION(key=key, found=repr(value)))
    return value


def _divisions(found: Any) -> tuple[int, ...]:
    """From {"1": 0, "2": 0, "4": 0, ...}: a number for each interval, in MiB; all 0 means none."""
    if found is None or found == {}:
        return ()
    try:
        divisions = tuple(int(found[str(2**place)]) for place in range(DIVISION_INTERVALS))
    except (TypeError, ValueError, LookupError):
        divisions = (-1,)
    if not all(0 <= count < 2**60 and count.bit_count() <= 1 for count in divisions):
        raise InputError(BAD_OPTION(key="roundup_power2_divisions", found=shortened(repr(found))))
    return divisions if any(divisions) else ()
