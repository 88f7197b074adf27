"""The trace beside what image models took on a real card: the timm set of GPUMemNet, 60 rows drawn with a fixed seed.

    python bench/timm_set.py [--rows N] [--data FILE.csv]

The set (itu-rad/GPUMemNet, Apache-2.0) has 1,017 models of timm at five batch sizes: the memory that nvidia-smi or
dcgm saw on one A100 of 40 GB, and an estimate from FakeTensorMode. It states no optimizer, precision, input size or
version. So every row is traced with three optimizers in fp32 at the model's own input size, and all three are shown
beside the measured figure; nothing is fitted. Rows whose run evidently died early are left out by the rule of the
set's README (estimate below the measured figure, and below 39,000 MiB).

The first use makes an environment of its own with timm under `.bench/`. Each row is a child process with a time limit,
one at a time; rows already traced (`.bench/timm-rows.jsonl`) are not traced again: delete the file to begin anew.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from measured import aligned

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".bench"
VENV, TRACED = FOLDER / "timm-env", FOLDER / "timm-rows.jsonl"
CHILD = Path(__file__).with_name("timm_child.py")
PARTS = Path("data", "papers", "gpumemnet", "timm_faketensor_vs_measured.csv")
SEED, ROWS, STEPS, LIMIT_S = 6, 60, 2, 240
CARD = "A100 40GB"
MIB = 1024**2
MOST_CREDIBLE_MIB = 39_000
CONTEXT_MIB = 501
"""CUDA context on an A100 as AgileRL published it (pull request 635); no trace sees it."""
OPTIMIZERS = ("SGD", "SGD momentum", "Adam")


class Row(NamedTuple):
    """One run of the set, in MiB."""

    model: str
    batch: int
    measured: float
    estimate: float
    """Their last figure, of forward and backward on fake tensors, without weights and optimizer."""
    after_forward: float


def main() -> None:
    """Trace what is not traced yet, then print every row and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="how many of the drawn rows, from the first")
    parser.add_argument("--data", type=Path, help="the set's CSV; otherwise that of shared/, in or beside the checkout")
    asked = parser.parse_args()
    clean = read(asked.data or at_hand())
    rows = random.Random(SEED).sample(clean, ROWS)[: asked.rows]
    print(f"{len(rows)} of {len(clean):,} clean rows, seed {SEED}; {install()}", flush=True)
    table = {row: found for row in rows if (found := traced(row))}
    show(table, min(set(clean) - set(rows), key=lambda row: row.measured))


def at_hand() -> Path:
    """Where the set lies."""
    for shared in (ROOT / "shared", ROOT.parent / "shared"):
        if (shared / PARTS).exists():
            return shared / PARTS
    sys.exit(f"the set was not found as shared/{PARTS.as_posix()}, in or beside the checkout; name it with --data")


def read(path: Path) -> list[Row]:
    """The rows that did not evidently die before their peak."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            Row(
                line["timm_model"],
                int(line["batch_size"]),
                float(line["measured_max_gpu_mem_MiB"]),
                float(line["faketensor_final_estimate_MiB"]),
                # Their column is in thousandths of a GiB: the last column is 1.024 times the same figure.
                float(line["faketensor_after_forward_MiB"]) * 1.024,
            )
            for line in csv.DictReader(file)
        ]
    return [row for row in rows if row.estimate < row.measured and row.estimate < MOST_CREDIBLE_MIB]


def install() -> str:
    """Make the environment where it is missing; what is in it."""
    python = str(VENV / "bin" / "python")
    code = "from importlib.metadata import version; print(*(f'{name} {version(name)}' for name in ('timm', 'torch')))"
    ask = [python, "-c", code]
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    if subprocess.run(ask, check=False, capture_output=True).returncode:
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        pinned = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, *pinned, "--editable", str(ROOT), "torch", "timm"], check=True)
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()


def traced(row: Row) -> dict[str, Any]:
    """What the child says of a row, by optimizer: figures, or the reason why there are none."""
    for line in TRACED.read_text("utf-8").splitlines() if TRACED.exists() else ():
        kept = json.loads(line)
        if (kept["model"], kept["batch"]) == (row.model, row.batch):
            return dict(kept["found"])
    found = asked_of_child(row)
    if not any(reasons(found)):
        with TRACED.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"model": row.model, "batch": row.batch, "found": found}) + "\n")
    told = (f"{name} {one.get('why') or mib(one, 'reserved_bytes')}" for name, one in found.items())
    print(f"{row.model} x {row.batch}, measured {row.measured:.0f} MiB: {'; '.join(told)}", flush=True)
    return found


def asked_of_child(row: Row) -> dict[str, Any]:
    """Run it. An optimizer that it did not come to is given the reason."""
    asked = {"model": row.model, "batch": row.batch, "device": CARD, "context_bytes": CONTEXT_MIB * MIB}
    asked |= {"steps": STEPS, "most_seconds": LIMIT_S}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [VENV / "bin" / "python", CHILD, json.dumps(asked)]
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        lines, why = ended.stdout, (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    except subprocess.TimeoutExpired as error:
        lines, why = (error.stdout or b"").decode(), f"not traced within {LIMIT_S} s"
    answers = (json.loads(line) for line in lines.splitlines() if line.startswith("{"))
    found = {one.pop("optimizer"): one for one in answers}
    return {name: found.get(name, {"why": why}) for name in OPTIMIZERS}


def mib(found: dict[str, Any], key: str) -> float:
    """A figure of the child in MiB."""
    return round(float(found[key]) / MIB)


def show(table: dict[Row, dict[str, Any]], smallest: Row) -> None:
    """The rows, those without a figure with their reasons, and the errors."""
    good = {row: found for row, found in table.items() if not any(reasons(found))}
    head = ("model", "batch", "input", "measured", "FakeTensor", *OPTIMIZERS, "forward / theirs")
    print(aligned([head, *(_line(row, found) for row, found in good.items())]))
    for row, found in table.items():
        if row not in good:
            print(f"  not traced: {row.model} x {row.batch}: {' | '.join(dict.fromkeys(reasons(found)))}")
    if not good:
        sys.exit("no row was traced")
    print(
        f"\n{len(good)} of {len(table)} rows; errors against the measured figure, reserved on {CARD}. The smallest run "
        f"of the set that was not drawn, {smallest.model} x {smallest.batch}, took {smallest.measured:.0f} MiB, "
        f"{smallest.estimate:.0f} of them tensors by their estimate: the rest is the floor."
    )
    columns = ("estimate", "n", "bias (median)", "median MiB", "median", "p90", "within 10 %", "too high")
    print(aligned([columns, *summary(good, smallest)]))
    same = sum(abs(ratio(row, found) - 1) <= 0.02 for row, found in good.items())
    print(f"\n{same} of {len(good)} hold after the forward pass what their FakeTensor estimate says, within 2 %")
    cudnn = sum(bool(found["SGD"]["unknown"]) for found in good.values())
    guesses = sum(bool(found["SGD"]["guesses"]) for found in good.values())
    print(f"{cudnn} have unknown entries (convolution workspaces), {guesses} have guessed reads")


def reasons(found: dict[str, Any]) -> Iterator[str]:
    """Why there are no figures."""
    return (str(one["why"]) for one in found.values() if "why" in one)


def ratio(row: Row, found: dict[str, Any]) -> float:
    """Live bytes after the forward pass, without the weights, over theirs: far from 1, it is another program."""
    phases = found["SGD"]["requested_by_phase"]
    return float((phases["forward"] - phases["load"]) / MIB / row.after_forward)


def _line(row: Row, found: dict[str, Any]) -> tuple[str, ...]:
    sizes = (f"{mib(found[name], 'reserved_bytes'):.0f}" for name in OPTIMIZERS)
    size = "x".join(map(str, found["SGD"]["input"][1:]))
    shown = (row.model, str(row.batch), size, f"{row.measured:.0f}", f"{row.estimate:.0f}")
    return (*shown, *sizes, f"{ratio(row, found):.3f}")


def summary(good: dict[Row, dict[str, Any]], smallest: Row) -> Iterator[tuple[str, ...]]:
    """Theirs and ours by optimizer: as they are, with the context, and with what even the smallest run took."""
    measured = [row.measured for row in good]
    estimates = {"their FakeTensor": [row.estimate for row in good]} | {
        f"reserved, {name}": [mib(found[name], "reserved_bytes") for found in good.values()] for name in OPTIMIZERS
    }
    floor = round(smallest.measured - smallest.estimate)
    for name, values in estimates.items():
        for text, more in (("", 0), (f" + {CONTEXT_MIB} context", CONTEXT_MIB), (f" + {floor} floor", floor)):
            yield errors(name + text, [value + more for value in values], measured)


def errors(name: str, estimates: Sequence[float], measured: Sequence[float]) -> tuple[str, ...]:
    """Relative errors in percent; the ninth decile by the nearest rank."""
    signed = [estimate / truth - 1 for estimate, truth in zip(estimates, measured, strict=True)]
    sizes = sorted(map(abs, signed))
    count = len(sizes)
    return (
        name,
        str(count),
        f"{statistics.median(signed):+.1%}",
        f"{statistics.median(one - truth for one, truth in zip(estimates, measured, strict=True)):+.0f}",
        f"{statistics.median(sizes):.1%}",
        f"{sizes[max(0, -(-9 * count // 10) - 1)]:.1%}",
        f"{sum(size <= 0.1 for size in sizes) / count:.0%}",
        f"{sum(one > 0 for one in signed) / count:.0%}",
    )


if __name__ == "__main__":
    main()
