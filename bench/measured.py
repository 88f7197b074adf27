"""Whole processes, measured: wall time, processor time (user + system), peak resident memory.

Legend: ms milliseconds; MB 10^6 B. Commands of one comparison take turns (A B C, A B C, ...), so that a busy moment
of the machine falls on all of them. The peak of a process is the kernel's own (`wait4`); it starts from the size of
the runner that forked it, so a command smaller than the runner (about 20 MB) reads as the runner.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """One process."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    code: int
    stdout: bytes
    stderr: bytes


class Command(NamedTuple):
    """What to run, under the name that the tables show. `accepted` are the exit codes of a run that did its work."""

    name: str
    argv: Sequence[str | Path]
    environment: Mapping[str, str]
    accepted: tuple[int, ...] = (0,)


class Comparison(NamedTuple):
    """All the runs of commands that took turns: `runs[name][i]` is the run of round `i`."""

    runs: dict[str, list[Run]]

    def median(self, name: str, field: str) -> float:
        return float(statistics.median(getattr(run, field) for run in self.runs[name]))

    def least(self, name: str, field: str) -> float:
        return float(min(getattr(run, field) for run in self.runs[name]))

    def ratio(self, name: str, other: str, field: str) -> float:
        """Median of the ratios within each round."""
        pairs = zip(self.runs[name], self.runs[other], strict=True)
        return float(statistics.median(getattr(run, field) / getattr(base, field) for run, base in pairs))


def quiet_environment() -> dict[str, str]:
    """The caller's environment without what makes a run depend on the caller: language, colour, Python's switches."""
    dropped = ("PYTHON", "CAPIENZA_", "LC_", "HF_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped) and key != "LANGUAGE"}
    return kept | {"LANG": "C.UTF-8", "TERM": "dumb", "PYTHONHASHSEED": "0"}


def run(command: Command, limit_s: float = 120) -> Run:
    """One run, its output kept. Raises `SystemExit` when it fails or takes longer than `limit_s`."""
    started = time.perf_counter()
    with subprocess.Popen(
        [str(part) for part in command.argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(command.environment),
    ) as process:
        try:
            # communicate() would reap the process; its resource use is only told to the one who reaps it.
            stdout, stderr = _drain(process, started + limit_s)
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    done = Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, process.returncode, stdout, stderr)
    if done.code not in command.accepted:
        tail = (done.stderr or done.stdout)[-2000:].decode(errors="replace")
        sys.exit(f"{command.name}: exit code {done.code}\n{' '.join(map(str, command.argv))}\n{tail}")
    return done


def _drain(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    import selectors

    parts: dict[int, list[bytes]] = {}
    with selectors.DefaultSelector() as waiting:
        pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe]
        for pipe in pipes:
            waiting.register(pipe, selectors.EVENT_READ)
            parts[pipe.fileno()] = []
        while waiting.get_map():
            left = deadline - time.perf_counter()
            ready = waiting.select(left) if left > 0 else []
            if not ready:
                sys.exit(f"still running after the time limit: {process.args!r}")
            for key, _ in ready:
                piece = os.read(key.fd, 65536)
                if piece:
                    parts[key.fd].append(piece)
                else:
                    waiting.unregister(key.fileobj)
        out, err = (b"".join(parts[pipe.fileno()]) for pipe in pipes)
    return out, err


def take_turns(commands: Sequence[Command], rounds: int, warm_up: int = 1) -> Comparison:
    """Run the commands in turns; the warm-up rounds are thrown away."""
    runs: dict[str, list[Run]] = {command.name: [] for command in commands}
    for number in range(-warm_up, rounds):
        for command in commands:
            done = run(command)
            if number >= 0:
                runs[command.name].append(done)
    return Comparison(runs)


def table(comparison: Comparison, base: str) -> str:
    """Median and least of every figure, and the ratios to `base` within each round."""
    head = ("", "wall ms", "least", "CPU ms", "least", "peak MB", "wall / base", "CPU / base")
    return aligned([head, *(_figures(comparison, name, base) for name in comparison.runs)])


def _figures(comparison: Comparison, name: str, base: str) -> tuple[str, ...]:
    fields = ("wall_s", "cpu_s")
    times = [figure(name, field) for field in fields for figure in (comparison.median, comparison.least)]
    return (
        name,
        *(f"{seconds * 1000:.1f}" for seconds in times),
        f"{comparison.median(name, 'peak_bytes') / 1e6:.1f}",
        *(f"{comparison.ratio(name, base, field):.2f}" for field in fields),
    )


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *rest = (cell.ljust(width) if index == 0 else cell.rjust(width)
                        for index, (cell, width) in enumerate(zip(row, widths, strict=True)))  # fmt: skip
        lines.append("  " + "  ".join((first, *rest)).rstrip())
    return "\n".join(lines)


class Requirement(NamedTuple):
    """A figure beside what it must reach."""

    text: str
    value: float
    limit: float

    @property
    def met(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        return f"  {'met    ' if self.met else 'NOT MET'}  {self.text}: {self.value:.3f}, at most {self.limit:g}"


def conclude(requirements: Sequence[Requirement]) -> int:
    """Print every requirement; 1 when one is not met."""
    for requirement in requirements:
        print(requirement)
    return int(not all(requirement.met for requirement in requirements))


def machine() -> str:
    """What the figures were taken on."""
    model = ""
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    load = ", ".join(f"{figure:.1f}" for figure in os.getloadavg())
    version = sys.version.partition(" ")[0]
    return f"{len(os.sched_getaffinity(0))} cores ({model}), Python {version}, load {load}"
