"""Peaks of ranks by tracing against the same ranks run for real with gloo, as a table.

    python bench/trace_ranks.py                          every scheme on two ranks
    python bench/trace_ranks.py --world 4 fsdp2/net      these on four

Needs a C++ compiler for the counting allocator, and for `/llama` transformers. For each rank: the phase whose peak
differs most, in bytes and in percent of the real peak, over three steps; then the worst of all, and the seconds of
processor time that a trace of a rank took.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
import rank_programs

NOT_SEEN = ("ddp-fp16",)
"""gloo decompresses in a thread of its own, which is not counted."""
FOUR_ONLY = ("hsdp", "tp-fsdp2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--model", default="net", choices=sorted(rank_programs.MODELS))
    asked = parser.parse_args()
    left_out = NOT_SEEN + (FOUR_ONLY if asked.world < 4 else ())
    names = asked.names or [f"{name}/{asked.model}" for name in rank_programs.PROGRAMS if name not in left_out]
    worst = 0.0
    print(
        f"{'program':26} {'rank':>4} {'phase':14} {'traced B':>12} {'real B':>12} {'diff B':>9} {'%':>8} {'trace s':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        library = rank_programs.counter(Path(folder))
        for name in names:
            real = rank_programs.run([name], asked.world, library)[name]
            began = time.process_time()
            traced = rank_programs.traced(name, asked.world, tuple(range(asked.world)))
            seconds = (time.process_time() - began) / asked.world
            for rank, (told, seen) in enumerate(zip(traced, real, strict=True)):
                phase = max(seen, key=lambda one: abs(told[one] - seen[one]) / seen[one])
                difference = told[phase] - seen[phase]
                percent = 100 * abs(difference) / seen[phase]
                worst = max(worst, percent)
                print(
                    f"{name:26} {rank:4} {phase:14} {told[phase]:12} {seen[phase]:12} {difference:9} {percent:8.4f} "
                    f"{seconds:8.2f}",
                    flush=True,
                )
    print(f"worst: {worst:.4f} %")


if __name__ == "__main__":
    main()
