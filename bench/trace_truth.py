"""The trace beside the real CPU allocator: bytes after every operation of the second step, and inside operations.

    python bench/trace_truth.py [--types llama,gpt2 | --others] [--few] [--out FILE.json]

Sixty causal language models, small, each in fp32 and bf16, AdamW foreach and single-tensor, with and without
checkpointing, and a generation of 16 tokens; with `--others` thirty-three that see, hear, draw or encode. Sizes are
those PyTorch asks its CPU allocator for. Differences are in percent of the real figure, minus where the trace is under.
A raw peak (inside an operation) that the trace misses by more than 0.1 % names its operation and its scratch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "trace"))

from truth.compare import Job, Row, Worker, compared  # noqa: E402 - support of the tests
from truth.others import HELD_OUT, KNOWN  # noqa: E402 - support of the tests
from truth.sample import SIXTY  # noqa: E402 - support of the tests

DTYPES = ("float32", "bfloat16")
FEW = ("float32 foreach", "bfloat16 single checkpointing", "float32 generate")


def main() -> None:
    """Print the rows that differ, then the table of each kind of run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default=",".join(SIXTY))
    parser.add_argument("--others", action="store_true", help="models that are no language models instead")
    parser.add_argument("--few", action="store_true", help="three of the ten runs of each type")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    worker = Worker()
    groups: dict[str, list[Row]] = {}
    try:
        names = (*KNOWN, *HELD_OUT) if asked.others else asked.types.split(",")
        for index, name in enumerate(names):
            print(f"\r{index} of {len(names)}: {name:40}", end="", file=sys.stderr, flush=True)
            chosen = [run for run in runs(name) if asked.others or not asked.few or run[0] in FEW]
            for (group, _), row in zip(chosen, compared(worker, [job for _, job in chosen]), strict=True):
                groups.setdefault(group, []).append(row)
                for line in remarks(row):
                    print(f"{group} | {row.name} | {line}", flush=True)
    except KeyboardInterrupt:
        print("stopped: the table holds what was run")
    for line in table(groups):
        print(line)
    if asked.out:
        asked.out.write_text(json.dumps({group: [row._asdict() for row in rows] for group, rows in groups.items()}))


def runs(model_type: str) -> Iterator[tuple[str, Job]]:
    """Every run of a type: its group, and what a worker is asked."""
    if model_type in KNOWN or model_type in HELD_OUT:
        yield "known models" if model_type in KNOWN else "held-out models", ("other", {"name": model_type})
        return
    for dtype in DTYPES:
        shared = {"model_type": model_type, "dtype": dtype}
        for foreach, checkpointing in product((True, False), (False, True)):
            group = f"{dtype} {'foreach' if foreach else 'single'}{' checkpointing' if checkpointing else ''}"
            yield group, ("program", {**shared, "foreach": foreach, "checkpointing": checkpointing})
        yield f"{dtype} generate", ("generation", shared)


def remarks(row: Row) -> Iterator[str]:
    """What a reader must know of one row."""
    if row.error:
        yield row.error
    if row.parted:
        yield f"operations part at {row.parted}"
    if abs(row.base_bytes) > 64:
        yield f"before the step {row.base_bytes:+,} B"
    if abs(row.boundary) > 0.01:
        yield f"boundary {row.boundary:+.4f} %, curves part at {row.curve_parted}"
    if row.raw > 0.1 or row.raw < -0.1:
        yield f"raw {row.raw:+.3f} %: {row.missing:+,} B in {row.raw_op}, whose scratch is {row.scratch:,} B"


def table(groups: dict[str, list[Row]]) -> Iterator[str]:
    """Quantiles of each kind of run."""
    yield (
        f"{'run':38} {'n':>4} {'errors':>6} {'boundary p50 / p90 / p95 / max':>34} {'<= 0.01 %':>9} {'64 B':>5} "
        f"{'same ops':>8} {'with views':>10} {'raw p50 / p90 / p95 / max':>34} {'over':>6}"
    )
    for group, rows in groups.items():
        good = [row for row in rows if not row.error]
        if good:
            yield _line(group, rows, good)


def _line(group: str, rows: list[Row], good: list[Row]) -> str:
    boundary = [abs(row.boundary) for row in good]
    within = sum(value <= 0.01 for value in boundary)
    based = sum(abs(row.base_bytes) <= 64 for row in good)
    same = sum(not row.parted for row in good)
    viewed = sum(not row.views_parted for row in good)
    over = max(row.raw for row in good)
    return (
        f"{group:38} {len(rows):4} {len(rows) - len(good):6} {_quantiles(boundary):>34} "
        f"{within:9} {based:5} {same:8} {viewed:10} "
        f"{_quantiles([abs(row.raw) for row in good]):>34} {over:+6.3f}"
    )


def _quantiles(values: list[float]) -> str:
    ranked = sorted(values)
    picked = [ranked[min(len(ranked) - 1, int(share * len(ranked)))] for share in (0.5, 0.9, 0.95)]
    return " / ".join(f"{value:.4f}" for value in [*picked, ranked[-1]])


if __name__ == "__main__":
    main()
