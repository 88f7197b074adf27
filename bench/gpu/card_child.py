"""One job in a process of its own: `python card_child.py JOB_AS_JSON`, or `work(job)` in a forked child.

A job names what to do (`cases`, `capacity`, `kernels`, `choices`), where the lines go and until when something new may
begin. Every name that was dealt with leaves a line in the log file, whatever became of it.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import card_counters
import card_recording
from card_rows import append, row
from kernel_ops import NEEDS
from kernel_table import choice_lines, kernel_lines
from programs import PROGRAMS, Program, numbered

STEPS = 3
# The exit code of a child whose card no longer answers it, after it wrote down why: the next child goes on.
BROKEN = 3
CHOSEN_LENGTH = "random weights; the published row does not state its length: 512 tokens are our choice"


def out_of_memory() -> type[BaseException]:
    """The error of a full card, under the name that this release gives it."""
    import torch

    return getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)


class Watch:
    """Reads the counters around every phase; `phases` and `marks` grow as the program runs."""

    def __init__(self, counters: Any) -> None:
        self.counters, self.step = counters, 0
        self.phases: list[dict[str, Any]] = []
        self.marks: list[tuple[int, str]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What was highest inside, also where it ends in an error."""
        self.counters.start()
        before, began = self.counters.read(), time.monotonic()
        self.marks.append((time.time_ns() // 1000, name))
        try:
            yield
        finally:
            found = self.counters.read()
            line = {"phase": name, "step": self.step, "seconds": round(time.monotonic() - began, 4), **found}
            if found:
                # What torch reserved is the part of the device's use that goes up and down; the rest only grows.
                line["is_device_peak"] = found["now"]["reserved"] == found["peak"]["reserved"]
                line["counts"] = {
                    key: value - before["counts"][key] for key, value in found["counts"].items() if value is not None
                }
            self.phases.append(line)


def run_program(program: Program, device: str, counters: Any, *, is_recorded: bool = False) -> dict[str, Any]:
    """Build and step one program under the counters; what was read, and how it ended."""
    counters.clean()
    done: dict[str, Any] = {
        "base": counters.read(),
        "outcome": "ok",
        "at": int(time.time()),
        "is_tiny": program.is_tiny,
    }
    watch, began = Watch(counters), time.monotonic()
    phase = numbered(watch.phase)
    done |= {"phases": watch.phases, "marks": watch.marks}
    if is_recorded:
        card_recording.begin()
    try:
        with phase("load"):
            state = program.build(device)
        done["parameters"] = sum(one.numel() for one in state.model.parameters())
        done["attention"] = getattr(getattr(state.model, "config", None), "_attn_implementation", None)
        for watch.step in range(STEPS):
            program.step(state, phase)
    except out_of_memory() as error:
        done |= {"outcome": "oom", "error": str(error)[:1000]}
    done["seconds"] = round(time.monotonic() - began, 2)
    if is_recorded:
        done["snapshot"] = card_recording.end()
    return done


def cases(job: dict[str, Any], counters: Any, device: str) -> None:
    """Every named program, one after the other, each row on disk before the next begins."""
    before: list[str] = []
    settings = card_counters.settings(counters.kind)
    for name in names(job):
        program = PROGRAMS[name].tiny() if job["is_tiny"] else PROGRAMS[name]
        if skipped(job, name, program.needs):
            continue
        with told(job, name):
            recording = job["recordings"].get(name)
            done = run_program(program, device, counters, is_recorded=recording is not None)
            done |= {"settings": settings, "context": counters.context, "before_in_process": list(before)}
            done["notes"] = CHOSEN_LENGTH if name.startswith("xmem-") else "random weights"
            if counters.kind == "cuda":
                done["allocator_settings"] = card_counters.allocator_settings()
            append(Path(job["cases"]), row(name, program, done))
            if recording:
                about = {"source": "own run, bench/gpu/measure_card.py", "program": name, "outcome": done["outcome"]}
                found = card_recording.reduced(done.pop("snapshot"), done["marks"], about)
                card_recording.save(Path(recording), found)
        before.append(name)


def capacity(job: dict[str, Any], counters: Any, device: str) -> None:
    """One program on a card that lets torch reserve so many bytes and no more."""
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (job["capacity_bytes"] + 0.5) / total))
    for name in names(job):
        with told(job, name):
            done = run_program(PROGRAMS[name].tiny() if job["is_tiny"] else PROGRAMS[name], device, counters)
            append(Path(job["log"]), {
                "kind": "capacity_trial", "name": name, "capacity_bytes": job["capacity_bytes"],
                "outcome": done["outcome"], "counts": [one.get("counts") for one in done["phases"]],
            })  # fmt: skip


def kernels(job: dict[str, Any], counters: Any, device: str) -> None:
    """The table of scratch and workspaces, one operation after the other."""
    gc.freeze()
    append(Path(job["kernels"]), {"kind": "context", "job": "kernels", **counters.context})
    append(Path(job["kernels"]), {"kind": "settings", **card_counters.settings(counters.kind)})
    for name in names(job):
        if skipped(job, name, (NEEDS[name],) if name in NEEDS else ()):
            continue
        with told(job, name):
            append(Path(job["kernels"]), *kernel_lines(name, device, counters, is_tiny=job["is_tiny"]))


def choices(job: dict[str, Any], counters: Any, device: str) -> None:
    """Which attention kernel torch takes."""
    append(Path(job["kernels"]), {"kind": "context", "job": "choices", **counters.context})
    append(Path(job["kernels"]), {"kind": "settings", **card_counters.settings(counters.kind)})
    for name in names(job):
        with told(job, name):
            append(Path(job["kernels"]), *choice_lines(device, is_tiny=job["is_tiny"]))


def names(job: dict[str, Any]) -> Iterator[str]:
    """The names of the job, as long as there is time to begin one."""
    for name in job["names"]:
        if time.time() > job["until"]:
            return
        yield name


def skipped(job: dict[str, Any], name: str, needs: tuple[str, ...]) -> bool:
    """Say aloud, and in the log, that a library is missing."""
    missing = [one for one in needs if find_spec(one) is None]
    if missing:
        print(f"skipped: {name}, not installed: {', '.join(missing)}")
        append(Path(job["log"]), {"kind": "skipped", "name": name, "why": f"not installed: {', '.join(missing)}"})
    return bool(missing)


@contextmanager
def told(job: dict[str, Any], name: str) -> Iterator[None]:
    """A line in the log for what was done, and one with the reason for what failed; a broken card ends the process."""
    began = time.monotonic()
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        append(Path(job["log"]), {"kind": "failed", "name": name, "why": f"{type(error).__name__}: {str(error)[:500]}"})
        if "CUDA error" in str(error):
            raise SystemExit(BROKEN) from error
    else:
        seconds = round(time.monotonic() - began, 2)
        print(f"done: {name}, {seconds} s")
        append(Path(job["log"]), {"kind": "done", "job": job["kind"], "name": name, "seconds": seconds})


def work(job: dict[str, Any]) -> None:
    """Do the job on the device that it names."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(1.0, job["limit_s"] - 2), exit=False)
    import torch

    if job["device"] == "cpu":
        torch.set_num_threads(1)
        JOBS[job["kind"]](job, card_counters.NoCounters(), "cpu")
        return
    context = card_counters.context()
    JOBS[job["kind"]](job, card_counters.CudaCounters(context), "cuda")


JOBS = {"cases": cases, "capacity": capacity, "kernels": kernels, "choices": choices}

if __name__ == "__main__":
    work(json.loads(sys.argv[1]))
