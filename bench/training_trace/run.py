"""The trace beside measured trainings, each row's real program run with the releases that its run had.

    python bench/training_trace/run.py [--rows ID,...] [--cases FILE.jsonl] [--again]

Rows: gold, one GPU, a measured `max_memory_allocated`. Left out, and counted with the reason: programs that run Triton
kernels or are compiled (nothing else computes what they hold), releases that no registry has. Every release is pinned
but PyTorch's: there is no wheel for CPUs of 2.4 here, so all run on the PyTorch of constraints.txt.

The first use makes an environment for each set of releases under `.bench/training-trace/`. A row is a child process,
one at a time; rows already traced (`rows.jsonl` there) are not traced again without --again. The last table is
docs/explanation/training-trace.md's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
FOLDER = ROOT / ".bench" / "training-trace"
TRACED = FOLDER / "rows.jsonl"
CASES = Path("cases", "training.jsonl")
LIMIT_S = 900
OURS = ("msgspec", "PyYAML", "click", "huggingface_hub")
"""What Capienza itself needs; it is put on the path, so that no release of its own choosing comes with it."""
RELEASES: dict[str, tuple[str, ...]] = {
    "transformers-4.45": (
        "transformers==4.45.2", "peft==0.12.0", "accelerate==0.34.2", "bitsandbytes==0.43.3", "numpy",
    ),
    "transformers-4.48": (
        "transformers==4.48.1", "peft==0.13.2", "accelerate==1.0.1", "bitsandbytes==0.43.3", "numpy",
    ),
    "litgpt-0.4": ("litgpt==0.4.13", "bitsandbytes==0.42.0", "scipy", "numpy"),
    "torchao-0.6": ("timm==1.0.9", "torchao==0.6.1", "torchvision", "numpy"),
    "torch": ("numpy",),
}  # fmt: skip


class Row(NamedTuple):
    """A measured row and how its program is run."""

    case: dict[str, Any]
    program: str
    releases: str
    device: str


class Result(NamedTuple):
    """What was found for a row."""

    row: Row
    measured_bytes: int
    found: dict[str, Any]

    @property
    def error(self) -> float:
        """In percent of the measured figure, minus where the trace is under."""
        return 100.0 * (self.found["allocated_bytes"] / self.measured_bytes - 1)


def main() -> None:
    """Trace what is not traced yet, then print every row, the figures and what was left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="only these, by id")
    parser.add_argument("--cases", type=Path, help="the measured rows; otherwise those of shared/")
    parser.add_argument("--again", action="store_true", help="trace rows again that are traced")
    asked = parser.parse_args()
    only = set(filter(None, asked.rows.split(",")))
    rows, left_out = chosen(asked.cases or at_hand())
    results = []
    for row in rows:
        if not only or row.case["id"] in only:
            found = traced(row, asked.again)
            results.append(Result(row, measured_bytes(row.case) or 0, found))
    for line in (*table(results), "", *summary(results), "", *reasons(left_out)):
        print(line)


def at_hand() -> Path:
    """Where the rows lie."""
    for shared in (ROOT / "shared", ROOT.parent / "shared"):
        if (shared / CASES).exists():
            return shared / CASES
    sys.exit(f"the rows were not found as shared/{CASES.as_posix()}, in or beside the checkout; name them with --cases")


def measured_bytes(case: dict[str, Any]) -> int | None:
    """What the run's counter of the allocated peak said."""
    return next(
        (one["bytes"] for one in case["measured"] if one["counter_kind"] == "torch_allocated_peak" and one["bytes"]),
        None,
    )


def chosen(path: Path) -> tuple[list[Row], Counter[str]]:
    """The rows whose program can be run, and how many were left out for which reason."""
    rows, left_out = [], Counter[str]()
    for line in path.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        is_peak = case["gold"] and case["num_gpus"] == 1 and case["outcome"] == "ok" and measured_bytes(case)
        if not is_peak:
            continue
        found = how(case)
        if isinstance(found, str):
            left_out[found] += 1
        else:
            rows.append(found)
    return rows, left_out


def how(case: dict[str, Any]) -> Row | str:
    """How the row's program is run, or why it is not."""
    family, loss = case["id"].partition("-")[0], case["loss_impl"] or ""
    if case["compile"]:
        return "compiled"
    if "triton" in case["method"]:
        return "AutoGPTQ's Triton kernels"
    if "triton" in loss or "liger" in loss:
        return "Triton kernels of fms-acceleration or Liger"
    if family == "fms":
        older = "4.45.2" in case["framework_version"]
        return Row(case, "fms", "transformers-4.45" if older else "transformers-4.48", "A100 80GB")
    if family == "litgpt24":
        return Row(case, "lit", "litgpt-0.4", "A10G")
    if family == "litgpt23":
        return "lit-gpt before its first release"
    if family == "liger":
        return Row(case, "ops", "torch", "A100 80GB")
    if family == "ao":
        return Row(case, "vit", "torchao-0.6", "RTX 4070 Ti SUPER")
    return f"{family}: a script of its own"


def traced(row: Row, again: bool) -> dict[str, Any]:
    """What the child says of a row: figures, or the reason why there are none."""
    kept = TRACED.read_text("utf-8").splitlines() if TRACED.exists() else []
    lines = {one["id"]: one["found"] for one in map(json.loads, kept)}
    if row.case["id"] in lines and not again:
        return dict(lines[row.case["id"]])
    found = asked_of_child(row, environment(row.releases))
    lines[row.case["id"]] = found
    if "why" not in found:
        TRACED.parent.mkdir(parents=True, exist_ok=True)
        TRACED.write_text("".join(json.dumps({"id": key, "found": one}) + "\n" for key, one in lines.items()), "utf-8")
    said = found.get("why") or f"{found['allocated_bytes']:,} B, measured {measured_bytes(row.case):,} B"
    print(f"{row.case['id']}: {said}", file=sys.stderr, flush=True)
    return found


def environment(name: str) -> str:
    """The interpreter of a set of releases, made where it is missing."""
    python = FOLDER / name / "bin" / "python"
    done = FOLDER / name / "complete"
    if not done.exists():
        print(f"making the environment {name}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER / name], check=True)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        pinned = ["--constraint", str(ROOT / "constraints.txt")]
        # One by one with `--constraint`: PyTorch stays ours whatever a release asks for.
        subprocess.run([*pip, *pinned, "torch", *OURS], check=True)
        asked = [one for one in RELEASES[name] if not one.startswith("timm")]
        subprocess.run([*pip, *asked, "torch==" + pin("torch")], check=True)
        for one in set(RELEASES[name]) - set(asked):
            subprocess.run([*pip, one, "torch==" + pin("torch")], check=True)
        done.touch()
    return str(python)


def pin(name: str) -> str:
    """The release that constraints.txt names."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{name}=="))


def asked_of_child(row: Row, python: str) -> dict[str, Any]:
    """Run it."""
    asked = json.dumps({"program": row.program, "device": row.device, "row": row.case})
    around = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    command = [python, str(HERE / "child.py")]
    try:
        ended = subprocess.run(
            command, env=around, input=asked, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"why": f"not traced within {LIMIT_S} s"}
    for line in reversed(ended.stdout.splitlines()):
        if line.startswith('{"'):
            return dict(json.loads(line))
    return {"why": (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]}


def table(results: list[Result]) -> Iterator[str]:
    """Each row, the largest difference first."""
    yield "| row | releases | model | method | measured, B | traced, B | difference |"
    yield "|---|---|---|---|---:|---:|---:|"
    good = [one for one in results if "why" not in one.found]
    for one in sorted(good, key=lambda one: -abs(one.error)):
        case, found = one.row.case, one.found
        shown = (case["id"], one.row.releases, case["model"], case["method"])
        sizes = f"{one.measured_bytes:,} | {found['allocated_bytes']:,} | {one.error:+.3f} %"
        yield f"| {' | '.join(shown)} | {sizes} |"
    for one in results:
        if "why" in one.found:
            yield f"| {one.row.case['id']} | {one.row.releases} | not traced: {one.found['why']} ||||"


def summary(results: list[Result]) -> Iterator[str]:
    """Median and the 95th percentile (nearest rank) of the sizes of the differences, by set of releases and of all."""
    yield "| releases | n | median | p95 | largest |"
    yield "|---|---:|---:|---:|---:|"
    groups: dict[str, list[float]] = {}
    for one in results:
        if "why" not in one.found:
            groups.setdefault(one.row.releases, []).append(abs(one.error))
    for name, errors in {**groups, "all": [size for sizes in groups.values() for size in sizes]}.items():
        ranked = sorted(errors)
        if ranked:
            p95 = ranked[-(-95 * len(ranked) // 100) - 1]
            yield f"| {name} | {len(ranked)} | {statistics.median(ranked):.3f} % | {p95:.3f} % | {ranked[-1]:.3f} % |"


def reasons(left_out: Counter[str]) -> Iterator[str]:
    """Gold rows with such a figure that are not here."""
    for reason, count in left_out.most_common():
        yield f"- {count} left out: {reason}"


if __name__ == "__main__":
    main()
