"""Ask a worker for the real and the traced curve of a program, and say where they part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[2] / "src"
Job = tuple[str, dict[str, Any]]
"""The kind of a program and its arguments."""


ANSWERS = ("instantiates", "trains", "generates")


class Row(NamedTuple):
    """One program, real and traced; differences in percent of the real figure, positive where the trace is over."""

    name: str
    error: str = ""
    base_bytes: int = 0
    boundary: float = 0.0
    raw: float = 0.0
    ops: int = 0
    parted: str = ""
    """The first operation that differs, views left out; empty where the sequences are equal."""
    views_parted: str = ""
    """The same with views."""
    curve_parted: str = ""
    """The first operation after which live bytes differ by more than 64 B."""
    raw_op: str = ""
    scratch: int = 0
    missing: int = 0
    """Real raw peak minus the traced boundary peak, bytes."""
    guesses: int = 0


class Worker:
    """A child that runs programs."""

    def __init__(self) -> None:
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")]),
            "TOKENIZERS_PARALLELISM": "false",
        }
        self._child = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def run(self, what: str, programs: Sequence[Job]) -> list[dict[str, Any]]:
        """The answers to one job, a program each."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps({"what": what, "programs": programs}).encode() + b"\n")
        self._child.stdin.flush()
        return json.loads(self._child.stdout.readline())

    def close(self) -> None:
        """End it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()


def compared(worker: Worker, jobs: Sequence[Job]) -> list[Row]:
    """Run programs both ways: all for real in one process, then all traced in another."""
    names = [str(arguments.get("model_type") or arguments.get("name")) for _, arguments in jobs]
    found = zip(names, worker.run("real", jobs), worker.run("traced", jobs), strict=True)
    return [_row(name, real, traced) for name, real, traced in found]


def covered(worker: Worker, model_type: str, dtype: str, *, real: bool) -> dict[str, Any]:
    """The three answers for one type, and why not."""
    what, device = ("runs", "cpu") if real else ("traces", "cuda")
    shared = {"model_type": model_type, "dtype": dtype, "device": device}
    trained, generated = worker.run(what, [("program", shared), ("generation", {**shared, "new_tokens": 4})])
    reasons = [answer.get("why") or answer.get("error") for answer in (trained, generated)]
    return {
        "instantiates": {trained.get("stage"), generated.get("stage")} <= {"step", "done"},
        "trains": trained.get("stage") == "done",
        "generates": generated.get("stage") == "done",
        "why": " | ".join(dict.fromkeys(reason for reason in reasons if reason)),
        "trained": trained,
        "generated": generated,
    }


def _row(name: str, real: dict[str, Any], traced: dict[str, Any]) -> Row:
    if "error" in real:
        return Row(name, "real: " + real["error"])
    if "error" in traced:
        return Row(name, "traced: " + traced["error"])
    real_peak, traced_peak = max(real["base"], *real["live"]), max(traced["base"], *traced["live"])
    return Row(
        name,
        base_bytes=traced["base"] - real["base"],
        boundary=100 * (traced_peak - real_peak) / real_peak,
        raw=100 * (traced_peak - real["raw_peak"]) / real["raw_peak"],
        ops=len(real["ops"]),
        parted=_parted(_without_views(real), _without_views(traced)),
        views_parted=_parted(real["ops"], traced["ops"]),
        curve_parted=_curve_parted(real, traced),
        raw_op=real["raw_op"],
        scratch=real["scratch"],
        missing=real["raw_peak"] - traced_peak,
        guesses=traced["guesses"],
    )


def _without_views(curve: dict[str, Any]) -> list[str]:
    views = set(curve["views"])
    return [op for index, op in enumerate(curve["ops"]) if index not in views]


def _parted(real: list[str], traced: list[str]) -> str:
    for index, (one, other) in enumerate(zip(real, traced, strict=False)):
        if one != other:
            return f"{index}: {one} / {other}"
    return "" if len(real) == len(traced) else f"{len(real)} / {len(traced)} operations"


def _curve_parted(real: dict[str, Any], traced: dict[str, Any]) -> str:
    """Only where the sequences are equal can the curves be laid side by side."""
    lives = [
        [
            (op, live)
            for index, (op, live) in enumerate(zip(curve["ops"], curve["live"], strict=True))
            if index not in views
        ]
        for curve, views in ((curve, set(curve["views"])) for curve in (real, traced))
    ]
    for index, ((op, one), (_, other)) in enumerate(zip(*lives, strict=False)):
        if abs(one - other) > 64:
            return f"{index}: {op} {other - one:+d}"
    return ""
