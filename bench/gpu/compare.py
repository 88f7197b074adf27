"""Predict every measured case without a card, and print by how much each figure is off.

python bench/gpu/compare.py CASES.jsonl [--only NAME ...]

Positive errors are predictions above the measurement. Beside the cases file, `run.jsonl` may hold smallest capacities
and `NAME.recording.json.gz` the allocator's events: then sizes that only one side allocated are told, phase by phase.
Needs this project and torch; nothing of a card.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from card_rows import WHOLE, lines
from programs import PROGRAMS, Program, numbered

from capienza.allocator.events import ALLOC, MARK
from capienza.allocator.settings import Settings, parse_settings
from capienza.errors import CapienzaError
from capienza.trace import phase, predict_peak

STEPS = 3
SHOWN = 8
COUNTERS = {"torch_allocated_peak": "allocated_bytes", "torch_reserved_peak": "reserved_bytes"}
Sizes = dict[str, Counter[int]]


def predicted(program: Program, gpu: str) -> Any:
    """What the trace says of the program on this card, with the phases that were measured."""
    counted = numbered(phase)

    def build() -> Any:
        with counted("load"):
            return program.build("cuda")

    settings = parse_settings(program.allocator) if program.allocator else Settings()
    card = gpu.removeprefix("NVIDIA ")
    return predict_peak(
        build, lambda state: program.step(state, counted), steps=STEPS, device=card, settings=settings
    )  # fmt: skip


def errors(row: dict[str, Any], found: Any) -> Iterator[tuple[str, str, int, int]]:
    """(phase, counter, measured, predicted) for every figure that both sides have."""
    by_phase = {str(one.phase): one for one in found.gpus[0].phases} | {WHOLE: found}
    for reading in row.get("measured") if isinstance(row.get("measured"), list) else row["phases"]:
        field, predicted_phase = COUNTERS.get(reading["counter_kind"]), by_phase.get(reading["phase"])
        if field and predicted_phase is not None:
            yield reading["phase"], reading["counter_kind"], reading["bytes"], getattr(predicted_phase, field)


def recorded_sizes(path: Path) -> Sizes:
    """How often each size was asked for in each phase of a recording."""
    with gzip.open(path) as file:
        recording = json.load(file)
    marks = dict(recording["marks"] or [])
    found: Sizes = {}
    name = "start"
    for index, event in enumerate(max(recording["device_traces"], key=len, default=[])):
        name = marks.get(index, name)
        if event["action"] == "alloc":
            found.setdefault(name, Counter())[event["size"]] += 1
    return found


def predicted_sizes(found: Any) -> Sizes:
    """The same of a trace."""
    recording = found.traced.recording
    sizes: Sizes = {}
    name = "start"
    for code, block, size, _ in recording.events[0]:
        if code == MARK:
            name = str(recording.phases[block])
        elif code == ALLOC:
            sizes.setdefault(name, Counter())[size] += 1
    return sizes


def differences(measured: Sizes, traced: Sizes) -> Iterator[str]:
    """The sizes that one side asked for more often, the most bytes first."""
    for name in measured:
        for word, one, other in (("only measured", measured, traced), ("only predicted", traced, measured)):
            more = one.get(name, Counter()) - other.get(name, Counter())
            most = sorted(more.items(), key=lambda item: -item[0] * item[1])[:SHOWN]
            if most:
                yield f"    {name}, {word}: " + ", ".join(f"{count} x {size} B" for size, count in most)


def capacities(path: Path) -> dict[str, dict[str, Any]]:
    """The smallest capacities that were searched."""
    return {one["name"]: one for one in lines(path) if one["kind"] == "smallest_capacity"}


def compared(row: dict[str, Any], beside: Path, least: dict[str, dict[str, Any]]) -> list[tuple[str, float]]:
    """Print one case; (counter, error) of its whole run."""
    name = row["program"]
    program = PROGRAMS[name].tiny() if row["run"]["is_tiny"] else PROGRAMS[name]
    try:
        found = predicted(program, row["gpu"])
    except CapienzaError as error:
        print(f"{name}: not predicted: {error}")
        return []
    whole = []
    print(f"{name}: kernels {dict(found.kernels)}, {len(found.guesses)} guesses, {len(found.unknown)} unknown entries")
    for where, counter, measured, guess in errors(row, found):
        error = (guess - measured) / measured
        print(f"  {where:24} {counter:22} measured {measured:>14} B  predicted {guess:>14} B  {error:+8.3%}")
        if where == WHOLE:
            whole.append((counter, error))
    if name in least:
        limits, guess = least[name], found.gpus[0].smallest_capacity_bytes
        ends = f"fails at {limits['fails_at_bytes']} B, runs at {limits['runs_at_bytes']} B"
        print(f"  smallest capacity: {ends}, predicted {guess} B")
    recording = beside / f"{name}.recording.json.gz"
    if recording.is_file():
        print(*differences(recorded_sizes(recording), predicted_sizes(found)), sep="\n")
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="cases.jsonl of measure_card.py")
    parser.add_argument("--only", nargs="*", help="names of programs")
    options = parser.parse_args()
    beside = options.cases.parent
    found: dict[str, list[float]] = {}
    for row in lines(options.cases):
        name = row.get("program")
        if name not in PROGRAMS or (options.only and name not in options.only):
            continue
        if row["outcome"] != "ok" or not row["num_gpus"]:
            print(f"{name}: left out, outcome {row['outcome']} on {row['gpu']}")
            continue
        for counter, error in compared(row, beside, capacities(beside / "run.jsonl")):
            found.setdefault(counter, []).append(error)
    for counter, all_errors in found.items():
        size = sorted(abs(error) for error in all_errors)
        low = sum(error < 0 for error in all_errors)
        print(
            f"{counter}: {len(size)} cases, median {statistics.median(size):.3%}, worst {size[-1]:.3%}, {low} too low"
        )
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
