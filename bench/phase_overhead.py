"""What `capienza.measure.phase` adds to a training step of 50 ms with three phases: forward, backward, update.

    python bench/phase_overhead.py [--steps N] [--with-torch]

`added`: processor time that entering and leaving the phases takes, and that of the thread which writes beside them;
this is what must stay under 1 %. `waited`: the same by the clock, which on an idle machine is no more and on a busy one
holds whoever else ran meanwhile. The CPU allocator's profiler is not in it: it is asked for by name and slows a step
visibly (`--with-torch` shows how much).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time

from measured import Requirement, conclude, machine

from capienza import measure

STEP_S = 0.050
WRITER = "capienza-readings"
PHASES = ("forward", "backward", "optimizer_step")


def work(rounds: int) -> int:
    """The same arithmetic each time, in Python, so that the writing thread competes for the interpreter."""
    total = 0
    for number in range(rounds):
        total += number * number
    return total


def calibrated() -> int:
    """Rounds of `work` that take a third of a step here, in processor time."""
    rounds = 1000
    while True:
        started = time.process_time()
        work(rounds)
        taken = time.process_time() - started
        if taken > STEP_S / 10:
            return int(rounds * STEP_S / len(PHASES) / taken)
        rounds *= 2


def step(rounds: int) -> tuple[float, float]:
    """Seconds that are not work in one step: processor time of this thread, and by the clock."""
    cpu, clock = time.thread_time(), time.perf_counter()
    worked_cpu = worked = 0.0
    for name in PHASES:
        with measure.phase(name):
            begun_cpu, begun = time.thread_time(), time.perf_counter()
            work(rounds)
            worked_cpu, worked = worked_cpu + time.thread_time() - begun_cpu, worked + time.perf_counter() - begun
    return time.thread_time() - cpu - worked_cpu, time.perf_counter() - clock - worked


def writer_time() -> float:
    """Processor time of the thread that writes."""
    (writer,) = (thread for thread in threading.enumerate() if thread.name == WRITER)
    return time.clock_gettime(time.pthread_getcpuclockid(writer.ident))


def profiler_ratio() -> float:
    """How much longer a small torch step takes under `cpu_allocator`."""
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(12)])
    rows = torch.ones(128, 512)

    def one() -> float:
        started = time.perf_counter()
        with measure.phase("forward"):
            loss = model(rows).sum()
        with measure.phase("backward"):
            loss.backward()
        return time.perf_counter() - started

    one()
    plain = statistics.median(one() for _ in range(30))
    with measure.cpu_allocator():
        watched = statistics.median(one() for _ in range(30))
    return watched / plain - 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="measured steps")
    parser.add_argument("--with-torch", action="store_true", help="also what the CPU allocator's profiler adds")
    options = parser.parse_args()
    rounds = calibrated()
    with tempfile.TemporaryDirectory() as folder:
        measure.write_to(folder)
        step(rounds)
        before = writer_time()
        steps = [step(rounds) for _ in range(options.steps)]
        writer = (writer_time() - before) / options.steps
        if options.with_torch:
            print(f"  cpu_allocator: a small step takes {100 * profiler_ratio():.0f} % longer")
        measure.stop()
    added = statistics.median(cpu for cpu, _ in steps) + writer
    waited = statistics.median(clock for _, clock in steps)
    print(f"{options.steps} steps of 50 ms of work with {len(PHASES)} phases each; {machine()}\n")
    print(f"  added:  {1000 * added:.3f} ms of processor time a step, {1000 * writer:.3f} of it writing")
    print(f"  waited: {1000 * waited:.3f} ms by the clock\n")
    return conclude([Requirement("added / a step of 50 ms, in %", 100 * added / STEP_S, 1.0)])


if __name__ == "__main__":
    sys.exit(main())
