"""What `measure` costs: wall time of a command with and without it, memory of measure itself, disk of a long run.

python bench/measure_overhead.py [--seconds N] [--rounds N]

The command computes on one core for a fixed amount of work, with a line of output every tenth of a second. Rounds with
and without `measure` alternate; the least wall times count, which a busy machine disturbs least, and the median of the
ratios of processor time. What is fixed (start, summary) is also printed apart: it does not grow with the run. The disk
is that of 24 hours at 10 Hz on 8 GPUs in which each of their counters changes once a second, written through the real
`Writer` with a clock of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from measured import Requirement, conclude, machine

from capienza.measure import readings
from capienza.measure.readings import Readings, Writer

MOST_PERCENT = 1.0
MOST_MB = 60.0
MOST_DISK_MB = 100.0
HOURS, HERTZ, GPUS = 24, 10, 8
COUNTERS = ("device", "process", "others")
WORK = """
import sys
def work(n):
    x = 0
    for i in range(n): x += i * i
    return x
for number in range(int(sys.argv[1])):
    work(2_000_000)
    print("step", number, "loss 0.1", flush=True)
"""
CARD = "capienza: 1\nname: bench\nmodel: {parameters: 1e9, bits: 16}\ntask: inference\ntokens: {required: 1024}\n"
START = "from capienza.cli.main import run; run()"


class Spent(NamedTuple):
    """Wall time, processor time of the process and all its children, and its own largest resident memory."""

    wall_s: float
    cpu_s: float
    own_mb: float


def spent(command: list[str], folder: str) -> Spent:
    """Run a command to its end."""
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    largest = 0.0
    while True:
        pid, _, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = 0
            return Spent(time.monotonic() - start, usage.ru_utime + usage.ru_stime, largest)
        largest = max(largest, resident_mb(process.pid))
        time.sleep(0.02)


def resident_mb(pid: int) -> float:
    """Resident memory that belongs to the process alone or is shared, in MB."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def overhead(seconds: float, rounds: int) -> list[Requirement]:
    """The ratio of wall times, and the memory."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "card.yaml").write_text(CARD)
        Path(folder, "work.py").write_text(WORK)
        steps = str(max(1, int(10 * seconds / spent([sys.executable, "work.py", "10"], folder).wall_s)))
        bare = [sys.executable, "work.py"]
        measured = [sys.executable, "-c", START, "measure", "card.yaml", "--", *bare]
        rows = []
        for number in range(rounds):
            for first in (bare, measured)[:: 1 if number % 2 else -1]:
                done = spent([*first, steps], folder)
                if first is bare:
                    alone = done
                else:
                    wrapped = done
            fixed = spent([*measured, "0"], folder).wall_s - spent([*bare, "0"], folder).wall_s
            rows.append((alone.wall_s, wrapped.wall_s, wrapped.cpu_s / alone.cpu_s, fixed, wrapped.own_mb))
            print(f"round {number + 1}: wall {alone.wall_s:.2f} s alone, {wrapped.wall_s:.2f} s measured; processor "
                  f"{alone.cpu_s:.2f} s and {wrapped.cpu_s:.2f} s; fixed part {fixed:.2f} s")  # fmt: skip
    bare_s, wrapped_s, *others = zip(*rows, strict=True)
    wall = min(wrapped_s) / min(bare_s)
    cpu, fixed, memory = map(statistics.median, others)
    print(f"least walls: ratio {wall:.4f}; medians: processor ratio {cpu:.4f}, fixed part {fixed:.2f} s")
    return [
        Requirement("wall time added, percent", 100 * (wall - 1), MOST_PERCENT),
        Requirement("processor time added, percent", 100 * (cpu - 1), MOST_PERCENT),
        Requirement("memory of measure, MB", memory, MOST_MB),
    ]


def disk() -> list[Requirement]:
    """The bytes of a day."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "readings.jsonl")
        writer = Writer(path)
        now = [0.0]
        writer.now = lambda: now[0]  # type: ignore[method-assign]
        counters = [writer.counter(name, "B", f"gpu:{gpu}", "bench") for gpu in range(GPUS) for name in COUNTERS]
        start = time.process_time()
        for second in range(HOURS * 3600):
            for tick in range(HERTZ):
                now[0] = second + tick / HERTZ
                for place, counter in enumerate(counters):
                    writer.read(counter, 40_000_000_000 + (second * 7919 * (place + 1)) % 20_000 * 2_097_152, now[0])
                if tick == HERTZ // 2:  # in the middle of a value, which makes two lines of it
                    writer.flush(sync=False)
        writer.close()
        spent = time.process_time() - start
        size = sum(one.stat().st_size for one in Path(folder).iterdir()) / 1e6
        count = sum(one.count for one in Readings(path).readings())
    expected = HOURS * 3600 * HERTZ * len(counters)
    print(f"{HOURS} h at {HERTZ} Hz, {GPUS} GPUs, {len(counters)} counters: {size:.1f} MB in parts of at most "
          f"{readings.PART_BYTES / 1e6:.0f} MB, {count:,} of {expected:,} readings come back, "
          f"{100 * spent / (HOURS * 3600):.3f} % of one core")  # fmt: skip
    return [
        Requirement("disk of a day, MB", size, MOST_DISK_MB),
        Requirement("readings that do not come back", expected - count, 0),
    ]


def main() -> int:
    """Print the figures and the requirements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--disk-only", action="store_true")
    given = parser.parse_args()
    print(machine())
    found = disk()
    if not given.disk_only:
        found += overhead(given.seconds, given.rounds)
    return conclude(found)


if __name__ == "__main__":
    sys.exit(main())
