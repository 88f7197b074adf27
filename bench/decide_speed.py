"""`capienza decide` over many offers, whole process: time and memory; many cards; a YAML list that is refused.

python bench/decide_speed.py [--rounds N]
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
import tempfile
from pathlib import Path

from fixtures import CARD, FOLDER, MODEL, OFFER_FILES, make_all
from measured import Command, Requirement, aligned, conclude, machine, quiet_environment, run

CAPIENZA = Path(sys.executable).parent / "capienza"
DECIDED = (0, 10, 11)
BAD_INPUT = 3
LIMITS = {"offers-1000.yaml": (1.0, None), "offers-100000.csv": (10.0, 500.0), "offers-100000.jsonl": (10.0, 500.0)}
"""Seconds and MB."""
CARDS, MANY_LIMIT_S = 20, 60.0
TOO_LONG = "offers-20001.yaml"
CONVERSION = re.compile(r"`capienza (offers [^`]+)`")


def decide(offers: Path, accepted: tuple[int, ...]) -> Command:
    argv = (CAPIENZA, "decide", CARD, "--offers", offers)
    return Command(f"decide {offers.name}", argv, quiet_environment(), accepted)


def measure(rounds: int) -> list[Requirement]:
    rows: list[tuple[str, ...]] = [("", "wall s", "least", "CPU s", "peak MB", "exit")]
    requirements = []
    for name, (limit_s, limit_mb) in LIMITS.items():
        command = decide(FOLDER / name, DECIDED)
        runs = [run(command) for _ in range(rounds + 1)][1:]
        by_wall = sorted(runs)
        middle, peak_mb = by_wall[len(runs) // 2], max(one.peak_bytes for one in runs) / 1e6
        figures = (middle.wall_s, by_wall[0].wall_s, middle.cpu_s)
        rows.append((command.name, *(f"{figure:.2f}" for figure in figures), f"{peak_mb:.0f}", str(middle.code)))
        requirements.append(Requirement(f"{command.name}, wall s", middle.wall_s, limit_s))
        if limit_mb:
            requirements.append(Requirement(f"{command.name}, peak MB", peak_mb, limit_mb))
    print(aligned(rows))
    return requirements


def measure_many() -> Requirement:
    """Twenty cards, each with a load and a cap of its own, over the same 100,000 offers."""
    text = CARD.read_text()
    with tempfile.TemporaryDirectory(dir=CARD.parent) as folder:
        names = []
        for number in range(1, CARDS + 1):
            changed = text.replace("path: ./hub", "path: ../hub").replace("concurrency: 8", f"concurrency: {number}")
            path = Path(folder) / f"card-{number}.yaml"
            path.write_text(changed.replace("cap: 300 USD", f"cap: {100 + 40 * number} USD"))
            names.append(path)
        offers = FOLDER / "offers-100000.csv"
        command = Command(
            f"decide {CARDS} cards", (CAPIENZA, "decide", *names, "--offers", offers), quiet_environment(), DECIDED
        )
        done = run(command)
    print(
        f"\n{command.name}: {done.wall_s:.1f} s, {done.cpu_s:.1f} s CPU, largest process {done.peak_bytes / 1e6:.0f} MB"
    )
    return Requirement(f"{command.name} over 100,000 offers, wall s", done.wall_s, MANY_LIMIT_S)


def check_refusal() -> None:
    """The refusal must give a command, and the command must give a file that `decide` takes."""
    refused = run(decide(FOLDER / TOO_LONG, (BAD_INPUT,)))
    text = refused.stderr.decode()
    match = CONVERSION.search(text)
    if match is None:
        sys.exit(f"{TOO_LONG} is refused without the command that converts it:\n{text}")
    print(f"\n{TOO_LONG}: refused in {refused.wall_s:.2f} s, {refused.peak_bytes / 1e6:.0f} MB; it says: {match[0]}")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        argv = shlex.split(match[1])
        converted = run(Command("the command it gives", [CAPIENZA, *argv], quiet_environment()))
        offers = Path(argv[argv.index("--out") + 1]).read_text().count("\n")
    if offers != OFFER_FILES[TOO_LONG][0]:
        sys.exit(f"the conversion kept {offers} offers")
    print(f"  the command converts {offers} offers in {converted.wall_s:.2f} s, {converted.peak_bytes / 1e6:.0f} MB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="measured runs of each file after one warm-up")
    options = parser.parse_args()
    if not all((FOLDER / name).exists() for name in OFFER_FILES) or not MODEL.exists():
        make_all()
    print(f"decide, median of {options.rounds} runs after one warm-up; {machine()}\n")
    requirements = measure(max(1, options.rounds))
    requirements.append(measure_many())
    check_refusal()
    print()
    return conclude(requirements)


if __name__ == "__main__":
    sys.exit(main())
