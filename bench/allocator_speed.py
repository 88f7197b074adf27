"""How fast the allocator's replay is: events a second, for each setting, and the search for the smallest capacity.

    .venv/bin/python bench/allocator_speed.py [EVENTS]

The program is random: sizes of a training step, some thousand blocks alive, half of them freed soon.
"""

from __future__ import annotations

import random
import sys
import time

from capienza.allocator.capacity import smallest_capacity_bytes
from capienza.allocator.events import ALLOC, FREE, Event
from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings

MIB = 2**20
ALIVE = 3000


def program(count: int) -> list[Event]:
    """Allocations and frees, as many as wanted."""
    chance = random.Random(1)
    sizes = [chance.randint(1, 4 * MIB) for _ in range(300)] + [chance.randint(1, 200 * MIB) for _ in range(30)]
    events: list[Event] = []
    alive: list[int] = []
    for number in range(count):
        if alive and (len(alive) > ALIVE or chance.random() < 0.47):
            place = chance.randrange(len(alive))
            alive[place], alive[-1] = alive[-1], alive[place]
            events.append((FREE, alive.pop(), 0, 0))
        else:
            alive.append(number)
            events.append((ALLOC, number, chance.choice(sizes), 0))
    return events


def main() -> None:
    """Print a line for each setting."""
    events = program(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    for name, settings in (
        ("default", Settings()),
        ("expandable", parse_settings("expandable_segments:True")),
        ("max_split 128", parse_settings("max_split_size_mb:128")),
        ("roundup 8", parse_settings("roundup_power2_divisions:8")),
        ("collection", Settings(garbage_collection_threshold=0.01, allowed_bytes=2**40)),
    ):
        start = time.process_time()
        found = replay(events, settings)
        seconds = time.process_time() - start
        print(
            f"{name:14} {len(events) / seconds:12,.0f} events/s {seconds:6.2f} s CPU"
            f"  reserved {found.peaks.reserved_bytes / found.peaks.allocated_bytes:5.3f} of allocated"
        )
    start = time.process_time()
    least = smallest_capacity_bytes(events)
    seconds = time.process_time() - start
    assert least.runs_bytes is not None
    print(
        f"{'capacity':14} {least.replays} replays {seconds:6.2f} s CPU  smallest"
        f" {least.runs_bytes / least.unlimited.peaks.reserved_bytes:5.3f} of reserved without pressure"
    )


if __name__ == "__main__":
    main()
