"""Measure 24 programs, two smallest capacities and the scratch of kernels on one card; see README.md beside this file.

python bench/gpu/measure_card.py --out FOLDER [--minutes 7] [--cpu] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import card_child
import program_models
from card_rows import append, lines
from kernel_ops import OPS
from programs import PROGRAMS

STEP_BYTES = 64 * 2**20
LIMIT_S = {"cases": 60, "capacity": 45, "kernels": 150, "choices": 40}
# For each further program of one child; for the operations before the smaller programs have had their turn.
MORE_S, KERNELS_S = 8, 90
# A child that began in time may go on for so long after the end.
GRACE_S = 60
RECORDED = ("xmem-llama-3b-adafactor", "qwen3-0.6b", "qwen3-0.6b-expandable", "generate")
CAPACITIES = ("gpt2", "xmem-qwen-1.5b-sgd")
ENDED = {"done", "failed", "skipped", "died"}


class Runner:
    """Starts one child after the other: two readings of one device would mix."""

    def __init__(self, out: Path, device: str, end: float) -> None:
        self.out, self.device, self.end = out, device, end
        self.log = out / "run.jsonl"
        self.can_fork = True

    def job(self, kind: str, names: list[str], **more: Any) -> dict[str, Any]:
        """What a child is told; `more` may end it earlier, set the allocator, limit the capacity."""
        limit_s = LIMIT_S[kind] + (MORE_S * (len(names) - 1) if kind == "cases" else 0)
        return {
            "kind": kind, "names": names, "device": self.device, "is_tiny": self.device == "cpu", "until": self.end,
            "limit_s": min(limit_s, self.end + GRACE_S - time.time()), "allocator": "",
            "cases": str(self.out / "cases.jsonl"), "kernels": str(self.out / "kernels.jsonl"), "log": str(self.log),
            "recordings": self.recordings(names) if kind == "cases" else {}, **more,
        }  # fmt: skip

    def recordings(self, names: list[str]) -> dict[str, str]:
        """Which of them are recorded, and where; main memory has no such events."""
        if self.device == "cpu":
            return {}
        return {name: str(self.out / f"{name}.recording.json.gz") for name in names if name in RECORDED}

    def do(self, kind: str, names: list[str], **more: Any) -> list[str]:
        """Do all of them, in as many children as crashes make necessary; those for which there was no time."""
        left = list(names)
        while left and time.time() < min(self.end, more.get("until", self.end)):
            begun = len(lines(self.log))
            why = self.child(self.job(kind, left, **more))
            ended = {one["name"] for one in lines(self.log)[begun:] if one["kind"] in ENDED}
            left = [name for name in left if name not in ended]
            if why and left:
                self.say({"kind": "died", "name": left.pop(0), "why": why})
        return left

    def left_out(self, names: list[str], why: str = "the time is up") -> None:
        """What is not measured is said."""
        if names:
            self.say({"kind": "left out", "names": names, "why": why})

    def say(self, line: dict[str, Any]) -> None:
        """Aloud and into the log."""
        print(json.dumps(line), flush=True)
        append(self.log, line)

    def child(self, job: dict[str, Any]) -> str:
        """Run one job to its end or its time limit; why it did not end well, else empty."""
        # The allocator reads its settings once, perhaps when torch is loaded: they need an interpreter of their own.
        return (forked if self.can_fork and not job["allocator"] else started)(job)


def forked(job: dict[str, Any]) -> str:
    """In a copy of this process, which has its libraries loaded and has not touched the card."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            card_child.work(job)
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def poll() -> int | None:
        ended, status = os.waitpid(child, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None

    def kill() -> None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    return awaited(poll, kill, job["limit_s"])


def started(job: dict[str, Any]) -> str:
    """In a new interpreter."""
    settings = {"PYTORCH_CUDA_ALLOC_CONF": job["allocator"], "PYTORCH_ALLOC_CONF": job["allocator"]}
    child = subprocess.Popen(
        [sys.executable, str(Path(card_child.__file__)), json.dumps(job)],
        stdin=subprocess.DEVNULL, env=os.environ | (settings if job["allocator"] else {}),
    )  # fmt: skip

    def kill() -> None:
        child.kill()
        child.wait()

    return awaited(child.poll, kill, job["limit_s"])


def awaited(poll: Callable[[], int | None], kill: Callable[[], None], limit_s: float) -> str:
    """Wait for an end; a child over its limit is killed."""
    end = time.monotonic() + limit_s
    while (code := poll()) is None:
        if time.monotonic() > end:
            kill()
            return f"killed after {limit_s:.0f} s"
        time.sleep(0.02)
    return "" if code in {0, card_child.BROKEN} else f"ended with code {code}"


def probe(runner: Runner) -> None:
    """See whether a forked child can use the card; else every child is a new interpreter."""
    why = forked(runner.job("choices", ["sdpa choice"]))
    ended = {one["name"] for one in lines(runner.log) if one["kind"] == "done"}
    if why or "sdpa choice" not in ended:
        runner.can_fork = False
        runner.say({"kind": "no fork", "why": why or "the forked child could not use the card"})
        runner.do("choices", ["sdpa choice"])


def shared(names: list[str]) -> list[list[str]]:
    """Programs with the same settings of the allocator share a child: to start one costs more than to run most."""
    settings = dict.fromkeys(PROGRAMS[name].allocator for name in names)
    return [[name for name in names if PROGRAMS[name].allocator == one] for one in settings]


def smallest(name: str, runner: Runner) -> None:
    """The smallest capacity at which a program still runs, to 64 MiB, between its two peaks."""
    if runner.device == "cpu":
        return runner.left_out([name], "a smallest capacity needs a card")
    rows = [one for one in lines(runner.out / "cases.jsonl") if one["program"] == name and one["outcome"] == "ok"]
    if not rows:
        return runner.left_out([name], "no peaks were measured to search a smallest capacity between")
    peaks = {one["counter_kind"]: one["bytes"] for one in rows[-1]["measured"] if one["phase"] == "whole run"}

    def runs(capacity_bytes: int) -> bool | None:
        before = len(lines(runner.log))
        runner.do("capacity", [name], capacity_bytes=capacity_bytes)
        made = [one for one in lines(runner.log)[before:] if one["kind"] == "capacity_trial"]
        return made[-1]["outcome"] == "ok" if made else None

    low, high, is_complete = bisected(peaks["torch_allocated_peak"], peaks["torch_reserved_peak"], runs)
    runner.say({
        "kind": "smallest_capacity", "name": name, "fails_at_bytes": low, "runs_at_bytes": high,
        "step_bytes": STEP_BYTES, "is_complete": is_complete, "peaks": peaks,
    })  # fmt: skip
    return None


def bisected(allocated: int, reserved: int, runs: Callable[[int], bool | None]) -> tuple[int, int, bool]:
    """The highest capacity that fails, the lowest that runs, and whether they are one step apart.

    A run needs no less than it allocates, and what it reserved was enough: those two ends are not tried. A trial
    without an answer ends the search.
    """
    low, high = (allocated - 1) // STEP_BYTES, -(-reserved // STEP_BYTES)
    while high - low > 1:
        middle = (low + high) // 2
        answer = runs(middle * STEP_BYTES)
        if answer is None:
            return low * STEP_BYTES, high * STEP_BYTES, False
        low, high = (low, middle) if answer else (middle, high)
    return low * STEP_BYTES, high * STEP_BYTES, True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder that the files go to")
    parser.add_argument("--minutes", type=float, default=7, help="nothing new begins later than this")
    parser.add_argument("--cpu", action="store_true", help="tiny models in main memory, to see that it works")
    parser.add_argument("--only", nargs="*", help="names of programs or operations")
    options = parser.parse_args()
    end = time.time() + 60 * options.minutes
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")
    options.out.mkdir(parents=True, exist_ok=True)
    # Asks the driver's own library whether there is a card: to ask CUDA would spoil this process for its children.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    runner = Runner(options.out, "cpu" if options.cpu else "cuda", end)
    runner.say({"kind": "begun", "at": int(time.time()), "device": runner.device, "python": sys.version.split()[0]})
    asked = set(options.only or (*PROGRAMS, *OPS))
    measure(runner, [name for name in PROGRAMS if name in asked], [name for name in OPS if name in asked])
    made = len(lines(options.out / "cases.jsonl"))
    runner.say({"kind": "ended", "cases": made, "minutes_left": round((end - time.time()) / 60, 2)})
    return 0 if made else 1


def warm_up(programs: list[str]) -> None:
    """Load what every child needs, and touch no card: shapes without storage are enough to load a model's code."""
    for name in ("torch", "transformers", "torch._dynamo"):
        importlib.import_module(name)
    for program in (PROGRAMS[name] for name in programs):
        if program.method == "full" and all(find_spec(one) for one in program.needs):
            program_models.model(program.model, program.dtype, "meta", is_tiny=True)


def measure(runner: Runner, programs: list[str], ops: list[str]) -> None:
    """All of it, the most valuable first."""
    if time.time() < runner.end:
        warm_up(programs)
        probe(runner)
    left = []
    for name in programs:
        if name.startswith("xmem-"):
            left += runner.do("cases", [name])
    later = runner.do("kernels", ops, until=time.time() + KERNELS_S)
    small = [name for name in programs if not name.startswith("xmem-")]
    for group in [[name] for name in small] if runner.can_fork else shared(small):
        left += runner.do("cases", group, allocator=PROGRAMS[group[0]].allocator)
    for name in CAPACITIES:
        if name in programs:
            smallest(name, runner)
    left += runner.do("kernels", later)
    runner.left_out(left)


if __name__ == "__main__":
    sys.exit(main())
