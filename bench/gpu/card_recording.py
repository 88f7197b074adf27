"""A recording of torch's allocator, reduced to what a simulator replays.

The form is that of the published recordings: `segments = [address, total_size, stream, small|large, [[block address,
size, requested, state]..]]` at the end; `traces = [[action, address, size, stream]..]` in order, one list a device.
`marks = [[index of the first event of the phase, name]..]` is ours, by the time of the events; null if unknown.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

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
    longest = max((len(trace) for trace in traces), default=0)
    return {
        **about,
        "note": "frames removed; ring buffer full, the oldest events are lost" if longest >= MAX_EVENTS
        else "frames removed; complete from before the model was built",
        "is_complete": longest < MAX_EVENTS,
        "allocator_settings": snapshot.get("allocator_settings"),
        "segments": [segment(one) for one in snapshot.get("segments", [])],
        "traces": [
            [[event["action"], event.get("addr", event.get("device_free", 0)), event["size"], event.get("stream", 0)]
             for event in trace]
            for trace in traces
        ],
        "marks": placed(traces, marks),
    }  # fmt: skip


def segment(found: dict[str, Any]) -> list[Any]:
    """One segment with its blocks."""
    blocks, address = [], found["address"]
    for block in found["blocks"]:
        at = block.get("address", address)
        blocks.append([at, block["size"], block.get("requested_size"), block["state"]])
        address = at + block["size"]
    return [found["address"], found["total_size"], found["stream"], found.get("segment_type"), blocks]


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
