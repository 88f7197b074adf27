"""`trace replay`: a recording of a real card beside the model of its allocator, and the same program otherwise."""

from __future__ import annotations

import os

import msgspec

from capienza.allocator.capacity import SmallestCapacity, smallest_capacity_bytes
from capienza.allocator.compare import Comparison, compare
from capienza.allocator.program import recorded_events
from capienza.allocator.recording import recorded_settings
from capienza.allocator.settings import parse_settings, remarks
from capienza.allocator.snapshot import read_snapshot
from capienza.errors import Message, Place, UsageError


class DeviceReplay(msgspec.Struct, frozen=True):
    """One device of a snapshot."""

    comparison: Comparison
    """Model and record beside each other, with the record's own settings."""
    recorded: SmallestCapacity
    """The program from an empty device, with the record's own settings."""
    otherwise: SmallestCapacity | None
    """The same with the settings given, where some are."""


class SnapshotReplay(msgspec.Struct, frozen=True):
    """What `trace replay` found."""

    snapshot: str
    settings: str | None
    devices: tuple[DeviceReplay, ...]
    notes: tuple[Message, ...]


def trace_replay(snapshot: str | os.PathLike[str], settings: str | None = None) -> SnapshotReplay:
    """Replay the recording in a memory snapshot through the model of the allocator, device by device.

    `snapshot` is what torch.cuda.memory._dump_snapshot writes, or its JSON; nothing in it is run. `settings`, written
    as in PYTORCH_ALLOC_CONF, are tried on the same program. Raises `InputError` for a file that is no snapshot,
    `UnreachableError` for one that cannot be opened, `UsageError` for settings that are off.
    """
    name = os.fspath(snapshot)
    try:
        wanted = None if settings is None else parse_settings(settings)
    except UsageError as error:
        raise UsageError(error.message, Place("--settings")) from error
    found = read_snapshot(name)
    own = recorded_settings(found.allocator_settings)
    devices = []
    for device, entries in enumerate(found.device_traces):
        if not entries:
            continue
        segments = [one for one in found.segments if one.device == device]
        events = recorded_events(segments, entries, own)
        devices.append(
            DeviceReplay(
                compare(segments, entries, own, device),
                smallest_capacity_bytes(events, own),
                None if wanted is None else smallest_capacity_bytes(events, wanted),
            )
        )
    return SnapshotReplay(name, settings, tuple(devices), remarks(own if wanted is None else wanted))
