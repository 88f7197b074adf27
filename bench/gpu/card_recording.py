"""A recording of torch's allocator without its stacks: what a simulator replays.

The form is that of `torch.cuda.memory._snapshot()` as JSON, so that whatever reads one reads this: `segments` with
their blocks at the end, `device_traces` with every event in order. `marks = [[index of a phase's first event, name]..]`
is ours, by the time of the events; null if unknown.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

SEGMENT = ("device", "address", "total_size", "stream", "segment_type", "segment_pool_id", "is_expandable")
BLOCK = ("address", "size", "requested_size", "state")
EVENT = ("action", "addr", "device_free", "size", "stream", "pool_id")
MAX_EVENTS = 400_000
MAX_FILE_BYTES = 12 * 2**20


def begin() -> None:
    """Record every event from here on, without stacks."""
    import torch

    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=MAX_EVENTS)


def end() -> dict[str, Any]:
    """What torch recorded, and no more recording."""
    import torch

    torch.cuda.synchronize()
    found = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return found


def reduced(snapshot: dict[str, Any], marks: list[tuple[int, str]], about: dict[str, Any]) -> dict[str, Any]:
    """The events and the final state; `marks` are (microseconds since 1970, phase)."""
    traces = snapshot.get("device_traces", [])
    is_complete = max((len(trace) for trace in traces), default=0) < MAX_EVENTS
    lost = "complete from before the model was built" if is_complete else "the oldest events are lost"
    return {
        **about,
        "note": f"frames removed; {lost}",
        "is_complete": is_complete,
        "allocator_settings": snapshot.get("allocator_settings", {}),
        "marks": placed(traces, marks),
        "segments": [
            kept(one, SEGMENT) | {"blocks": [kept(block, BLOCK) for block in one["blocks"]]}
            for one in snapshot.get("segments", [])
        ],
        "device_traces": [[kept(event, EVENT) for event in trace] for trace in traces],
    }


def kept(found: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The named fields, as far as this release of torch writes them."""
    return {name: found[name] for name in names if name in found}


def placed(traces: list[Any], marks: list[tuple[int, str]]) -> list[list[Any]] | None:
    """The index of the first event at or after each mark, on the device that has events."""
    events = max(traces, key=len, default=[])
    if not all("time_us" in event for event in events):
        return None
    found, index = [], 0
    for time_us, name in marks:
        while index < len(events) and events[index]["time_us"] < time_us:
            index += 1
        found.append([index, name])
    return found


def save(path: Path, recording: dict[str, Any]) -> int:
    """Write it compressed; its size. Nothing is written where it is larger than can be carried home."""
    packed = gzip.compress(json.dumps(recording, separators=(",", ":")).encode(), 6, mtime=0)
    if len(packed) > MAX_FILE_BYTES:
        too_large = f"the recording takes {len(packed)} B, more than {MAX_FILE_BYTES}"
        raise ValueError(too_large)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(packed)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return len(packed)
