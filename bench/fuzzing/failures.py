"""What failed: one example of each kind of failure, made smaller, saved so that anyone can run it again."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from fuzzing.mutate import Case
from fuzzing.runner import Runner
from fuzzing.trial import Outcome, command_lines

SMALLER_WITHIN_S = 20
ABOUT = "failure.json"
INPUT = "input"


def save(folder: Path, case: Case, outcome: Outcome, argv: list[str] | None, made_by: str) -> None:
    """Write the input, what happened, and how to see it again."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in case.files.items():
        path = folder / INPUT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    command = shlex.join(["capienza", *(argv or command_lines(case.kind, case.target)[0])])
    about = {
        "kind": case.kind,
        "name": case.name,
        "target": case.target,
        "argv": argv,
        "signature": outcome.signature,
        "cpu_s": round(outcome.cpu_s, 3),
        "growth_bytes": outcome.growth_bytes,
        "made_by": made_by,
        "replay": f"python bench/fuzz.py --replay {folder.name}",
        "command": f"cd {folder.name}/{INPUT} && {command}",
        "detail": outcome.detail,
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")


def load(folder: Path) -> tuple[Case, list[str] | None]:
    """A saved input, and the command line that it went through."""
    about = json.loads((folder / ABOUT).read_text())
    root = folder / INPUT
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return Case(about["kind"], about["name"], files, about["target"]), about["argv"]


def smaller(runner: Runner, case: Case, argv: list[str] | None, outcome: Outcome) -> Case:
    """The input with pieces taken out, as long as it fails in the same way, for a while."""

    def with_data(data: bytes) -> Case:
        return case._replace(files=case.files | {case.target: data})

    def fails(data: bytes) -> bool:
        return runner.try_case(with_data(data), argv).signature == outcome.signature

    return with_data(_shrink(case.data, fails, time.monotonic() + SMALLER_WITHIN_S)) if fails(case.data) else case


def _shrink(data: bytes, fails: Callable[[bytes], bool], deadline: float) -> bytes:
    piece = len(data) // 2
    while piece:
        at = 0
        while at < len(data):
            if time.monotonic() > deadline:
                return data
            shorter = data[:at] + data[at + piece :]
            if fails(shorter):
                data = shorter
            else:
                at += piece
        piece //= 2
    return data
