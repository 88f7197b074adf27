"""`diagnose` on many small logs in one process, and on one log of a hundred megabytes: logs a second, and memory.

python bench/diagnose_speed.py [--logs FILE.jsonl] [--megabytes N]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from measured import Requirement, conclude, machine

from capienza.diagnose.run import diagnose_log

ROOT = Path(__file__).parents[1]
SHARED = ROOT / ".." / "shared" / "cases" / "failures.jsonl"
sys.path.insert(0, str(ROOT / "tests" / "diagnose"))
from made_up_logs import LOGS  # noqa: E402 - logs of the tests

LEAST_LOGS_PER_S = 1000.0
MOST_MB = 100.0
STEP = b"{'loss': 1.2345, 'grad_norm': 0.51, 'learning_rate': 1e-05, 'epoch': 0.12}\n"
SERVED = (
    b"INFO 05-07 02:13:52 [metrics.py:417] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 12.3 "
    b"tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%\n"
)


def small_logs(path: Path) -> list[bytes]:
    """The logs of a file of cases; without one, those of the tests."""
    if not path.exists():
        return [log.encode() for *_, log in LOGS]
    return [json.loads(line)["log"].encode() for line in path.read_text().splitlines()]


def logs_per_s(logs: list[bytes], rounds: int = 7) -> float:
    """The best of some rounds, the first of which is not counted."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for log in logs:
            diagnose_log([log])
        times.append(time.perf_counter() - start)
    return len(logs) / min(times[1:])


def long_log(megabytes: int) -> Iterator[bytes]:
    block = (STEP + SERVED) * 1000
    for _ in range(megabytes * 10**6 // len(block)):
        yield block
    yield b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, default=SHARED)
    parser.add_argument("--megabytes", type=int, default=100)
    options = parser.parse_args()
    logs = small_logs(options.logs)
    size = sum(map(len, logs)) // len(logs)
    print(f"{len(logs)} logs of {size} bytes on average; {machine()}\n")
    speed = logs_per_s(logs)
    print(f"{speed:,.0f} logs/s")
    start = time.perf_counter()
    found = diagnose_log(long_log(options.megabytes))
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = f"{options.megabytes / seconds:.1f} MB/s, peak {peak_mb:.0f} MB"
    print(f"one log of {options.megabytes} MB, {found.lines:,} lines: {seconds:.1f} s, {rate}\n")
    if found.requested_bytes != 2 * 2**30:
        sys.exit("the failure at the end of the long log was not found")
    return conclude([
        Requirement("logs a second, as seconds for a thousand", 1000 / speed, 1000 / LEAST_LOGS_PER_S),
        Requirement("peak MB", peak_mb, MOST_MB),
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
