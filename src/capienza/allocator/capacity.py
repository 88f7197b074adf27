"""The smallest capacity with which a program still runs.

    live peak       blocks in the program's hands, rounded: below it no allocator can serve the program
    reserved peak   what the allocator holds when nothing limits it: from there on the limit is never met
    between         under pressure cached segments go back and come again in other sizes

In between, more memory is not always better: what fits depends on which segments were there before. The search
halves the interval and keeps at each step one capacity seen to fail and one seen to run; it ends with two
neighbours. Below the lower one there may be others that run by luck, and above the upper one some that fail: only
from the reserved peak on it is certain.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.allocator.events import Event
from capienza.allocator.replay import DEFAULTS, replay
from capienza.allocator.result import OutOfMemory, Replay
from capienza.allocator.settings import Settings
from capienza.allocator.sizes import MIB

GRANULARITY_BYTES = 2 * MIB


class SmallestCapacity(msgspec.Struct, frozen=True):
    """Two neighbouring capacities: the program was seen to run with one and to fail with the other.

    `runs_bytes` is None when it fails whatever the capacity (a limit of the settings, a request no device serves);
    `fails_bytes` is None when it needs nothing.
    """

    runs_bytes: int | None
    fails_bytes: int | None
    out_of_memory: OutOfMemory | None
    """What fails with `fails_bytes`."""
    unlimited: Replay
    """The same program where nothing limits it."""
    replays: int


def smallest_capacity_bytes(
    events: Sequence[Event],
    settings: Settings = DEFAULTS,
    phases: Sequence[str] = (),
    granularity_bytes: int = GRANULARITY_BYTES,
) -> SmallestCapacity:
    """Search in steps of the granularity. What else needs memory on the device (contexts) comes on top.

    Raises `InputError` as `replay` does.
    """
    unlimited = replay(events, settings, None, phases)
    if unlimited.out_of_memory is not None:
        return SmallestCapacity(None, None, unlimited.out_of_memory, unlimited, 1)
    runs = -(-unlimited.peaks.reserved_bytes // granularity_bytes)
    if runs == 0:
        return SmallestCapacity(0, None, None, unlimited, 1)
    # One step below the live peak it fails: proved before the search, and seen at its end.
    fails = -(-unlimited.peaks.allocated_bytes // granularity_bytes) - 1
    failure = None
    replays = 1
    while runs - fails > 1:
        middle = (runs + fails) // 2
        failed = replay(events, settings, middle * granularity_bytes, phases).out_of_memory
        replays += 1
        if failed is None:
            runs = middle
        else:
            fails, failure = middle, failed
    if failure is None:
        failure = replay(events, settings, fails * granularity_bytes, phases).out_of_memory
        replays += 1
    return SmallestCapacity(runs * granularity_bytes, fails * granularity_bytes, failure, unlimited, replays)
