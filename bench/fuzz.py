"""Damage sound inputs at random and see that every one ends in an answer or in an error that says what is wrong.

    python bench/fuzz.py 10000 [--seed S] [--kind safetensors --kind card ...] [--cli 100] [--out DIR]
    python bench/fuzz.py --replay DIR

A failure is: an exception that is not one of our errors; more than a second of processor time (a long list of
offers: a second for each MB); more than 64 MB above an idle start; an error too long to read; on the command line an
exit code outside the table, a trace, "internal error", or a control character. Before the random inputs come those at
the limits of what is read (as large, deep and many as can be). Inputs run one after the other in a process of their
own, every third random one also through the command line in that process, and `--cli` of them through the installed
command. Every failure is saved, smaller, in `.bench/fuzz-failures`. Exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import collections
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzzing import failures
from fuzzing.mutate import Case, make_case
from fuzzing.runner import Runner
from fuzzing.seeds import KINDS, all_seeds, lay_out
from fuzzing.trial import Outcome, command_lines, judge_output
from fuzzing.worker import work
from fuzzing.worst import worst_cases
from measured import aligned, quiet_environment

OUT = Path(__file__).resolve().parents[1] / ".bench" / "fuzz-failures"
CAPIENZA = Path(sys.executable).parent / "capienza"
FACE_EVERY = 3
CLI_LIMIT_S = 30
SHOWN_CODES = 12


class Failure:
    """A kind of failure: how often, and the smallest input."""

    def __init__(self) -> None:
        self.times = 0
        self.example: tuple[Case, Outcome, list[str] | None, str] | None = None

    def add(self, case: Case, outcome: Outcome, argv: list[str] | None, made_by: str) -> None:
        self.times += 1
        if self.example is None or len(case.data) < len(self.example[0].data):
            self.example = case, outcome, argv, made_by


class Tally:
    """Counts, extremes and failures of one kind of input."""

    def __init__(self) -> None:
        self.verdicts: collections.Counter[str] = collections.Counter()
        self.refusals: collections.Counter[str] = collections.Counter()
        self.commands: collections.Counter[str] = collections.Counter()
        self.slowest_s = 0.0
        self.largest_bytes = 0
        self.failures: dict[str, Failure] = collections.defaultdict(Failure)

    def add(self, case: Case, outcome: Outcome, argv: list[str] | None, made_by: str) -> None:
        self.verdicts[outcome.verdict] += 1
        self.slowest_s = max(self.slowest_s, outcome.cpu_s)
        self.largest_bytes = max(self.largest_bytes, outcome.growth_bytes)
        if outcome.verdict == "refused":
            self.refusals[outcome.what] += 1
        elif outcome.failed:
            self.failures[outcome.signature].add(case, outcome, argv, made_by)

    def add_command(self, case: Case, outcome: Outcome, argv: list[str], made_by: str) -> None:
        self.commands[outcome.signature] += 1
        if outcome.failed:
            self.failures[f"command: {outcome.signature}"].add(case, outcome, argv, made_by)


def command_line(case: Case, turn: int) -> list[str]:
    lines = command_lines(case.kind, case.target)
    return lines[turn % len(lines)]


def through_the_command(case: Case, argv: list[str]) -> Outcome:
    """One input through the installed command, as its users run it."""
    with tempfile.TemporaryDirectory(prefix="capienza-fuzz-") as folder:
        lay_out(case.files, Path(folder))
        try:
            done = subprocess.run(
                [CAPIENZA, *argv],
                cwd=folder,
                env=quiet_environment() | {"HF_HUB_OFFLINE": "1"},
                capture_output=True,
                timeout=CLI_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome("hang", f"for {CLI_LIMIT_S} s", str(argv))
    stdout, stderr = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return judge_output(done.returncode, argv, stdout, stderr)


def run_kind(kind: str, options: argparse.Namespace, count: int, commands: int) -> Tally:
    """All the inputs of one kind; prints what was found."""
    seeds = all_seeds()[kind]
    tally = Tally()
    with Runner(kind) as runner:
        for case in worst_cases(kind) if options.worst else ():
            tally.add(case, runner.try_case(case, None), None, case.name)
        for number in range(count):
            case = make_case(seeds, options.seed, number)
            argv = None if number % FACE_EVERY else command_line(case, number // FACE_EVERY)
            tally.add(case, runner.try_case(case, argv), argv, f"seed {options.seed}, number {number}")
        for turn in range(commands):
            number = turn * count // commands
            case = make_case(seeds, options.seed, number)
            argv = command_line(case, turn)
            tally.add_command(case, through_the_command(case, argv), argv, f"seed {options.seed}, number {number}")
        most = ", ".join(f"{what} {times}" for what, times in tally.refusals.most_common(SHOWN_CODES))
        print(f"{kind}: {len(tally.refusals)} ways of refusing: {most}")
        if commands:
            print(f"  through the command: {dict(tally.commands)}", flush=True)
        for turn, (signature, failure) in enumerate(sorted(tally.failures.items())):
            assert failure.example
            case, outcome, argv, made_by = failure.example
            if outcome.verdict == "traceback":
                case = failures.smaller(runner, case, argv, outcome)
            folder = options.out / f"{kind}-{turn}"
            failures.save(folder, case, outcome, argv, made_by)
            print(f"\n  {kind}: {signature}: {failure.times} times; see {folder}")
            print("    " + "\n    ".join(line[:300] for line in outcome.detail.strip().splitlines()[-4:]), flush=True)
    return tally


def report(tallies: dict[str, Tally]) -> str:
    verdicts = sorted({verdict for tally in tallies.values() for verdict in tally.verdicts})
    rows = [("kind", *verdicts, "slowest CPU s", "peak above idle MB")]
    for kind, tally in tallies.items():
        figures = (f"{tally.slowest_s:.2f}", f"{tally.largest_bytes / 1e6:.1f}")
        rows.append((kind, *(str(tally.verdicts[verdict]) for verdict in verdicts), *figures))
    return aligned(rows)


def campaign(options: argparse.Namespace) -> int:
    kinds = tuple(options.kind or KINDS)
    started = time.monotonic()
    count, commands = options.count // len(kinds), options.cli // len(kinds)
    tallies = {kind: run_kind(kind, options, count, commands) for kind in kinds}
    print(f"\n{count * len(kinds)} random inputs, seed {options.seed}, {time.monotonic() - started:.0f} s\n")
    print(report(tallies))
    failed = sum(failure.times for tally in tallies.values() for failure in tally.failures.values())
    print(f"\n  {failed} failed")
    return int(failed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=10_000, help="number of inputs, over all kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--cli", type=int, default=100, help="how many go through the installed command")
    parser.add_argument("--no-worst", dest="worst", action="store_false", help="leave out the inputs at the limits")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--replay", type=Path, metavar="DIR", help="run a saved failure again")
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.out)
        return 0
    if options.replay:
        case, argv = failures.load(options.replay)
        with Runner(case.kind) as runner:
            outcome = runner.try_case(case, argv)
        print(f"{outcome.signature}\n{outcome.cpu_s:.2f} s, {outcome.growth_bytes / 1e6:.1f} MB\n{outcome.detail}")
        return int(outcome.failed)
    return campaign(options)


if __name__ == "__main__":
    sys.exit(main())
