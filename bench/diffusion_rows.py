"""The trace beside measured fine-tunings of a diffusion transformer: FLUX.2-klein of PEFT's method comparison.

    python bench/diffusion_rows.py [--rows N] [--data FILE.jsonl]

13 of the 31 rows of shared/cases/training.jsonl: those whose configuration of PEFT was read (its repository,
method_comparison/image-gen/experiments) and that need no kernel which cannot be traced. Every row is a child process,
one at a time, with diffusers 0.38 in a folder of its own under `.bench/`; the other releases are the installed ones,
which are not those of the runs (torch 2.12 and 2.13, peft 0.19 as it was developed), and that is shown. Nothing is
fitted. Rows already traced (`.bench/diffusion-rows.jsonl`) are not traced again.

Compared are what is allocated after a step (the mean of the run's steps; the second of the trace), and the largest
reservation while training. Checkpointing of every block is the shared rows' own statement.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from measured import aligned

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".bench"
LIBRARY, TRACED = FOLDER / "diffusers-0.38", FOLDER / "diffusion-rows.jsonl"
CHILD = Path(__file__).with_name("diffusion_child.py")
CASES = Path("cases", "training.jsonl")
CARD, STEPS, LIMIT_S = "L40S", 3, 900
LINEARS = [
    "to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out", "linear_in",
    "linear_out", "to_qkv_mlp_proj",
]  # fmt: skip
ADAPTERS: dict[str, dict[str, Any] | None] = {
    "full-finetuning-default": None,
    "lora-default": {"peft_type": "LORA", "r": 32, "lora_alpha": 32},
    "lora-rank64": {"peft_type": "LORA", "r": 64, "lora_alpha": 64},
    "dora-rank64": {"peft_type": "LORA", "r": 64, "lora_alpha": 64, "use_dora": True},
    "loha-default": {"peft_type": "LOHA", "r": 32, "alpha": 32},
    "vera-default": {"peft_type": "VERA", "r": 32},
    "miss-default": {"peft_type": "MISS", "r": 32, "mini_r": 1},
    "ia3-default": {"peft_type": "IA3", "feedforward_modules": LINEARS},
    "delora-default": {"peft_type": "DELORA", "r": 32, "delora_lambda": 15},
    "ln_tuning-default": {"peft_type": "LN_TUNING", "target_modules": ["norm_q", "norm_k"]},
    "oft-default": {"peft_type": "OFT", "r": 0, "oft_block_size": 32, "use_cayley_neumann": True},
    "gralora-default": {"peft_type": "GRALORA", "r": 32, "alpha": 32, "gralora_k": 2},
    "randlora-default": {"peft_type": "RANDLORA", "r": 32, "randlora_alpha": 640},
}
"""PEFT's configuration of each row, as its experiment states it."""
AFTER_STEP, RESERVED = "mean right after optimizer step", "torch max_memory_reserved minus value at start"


def main() -> None:
    """Trace what is not traced yet, then print every row and the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=len(ADAPTERS), help="how many of the rows, from the first")
    parser.add_argument("--data", type=Path, help="the cases; otherwise those of shared/, in or beside the checkout")
    asked = parser.parse_args()
    measured = read(asked.data or at_hand())
    install()
    names = list(ADAPTERS)[: asked.rows]
    show({name: (measured[name], traced(name)) for name in names})


def at_hand() -> Path:
    """Where the cases lie."""
    for shared in (ROOT / "shared", ROOT.parent / "shared"):
        if (shared / CASES).exists():
            return shared / CASES
    sys.exit(f"the cases were not found as shared/{CASES.as_posix()}, in or beside the checkout; name them with --data")


def read(path: Path) -> dict[str, tuple[int, int]]:
    """Bytes after a step, and reserved while training, of each row."""
    rows = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    found = {}
    for row in rows:
        name = row["id"].removeprefix("peft-img-")
        if name in ADAPTERS and row["id"] != name:
            figures = {one["phase"] + one["counter"]: one["bytes"] for one in row["measured"]}
            after = next(value for key, value in figures.items() if key.startswith(AFTER_STEP))
            found[name] = after, next(value for key, value in figures.items() if key.endswith(RESERVED))
    return found


def install() -> None:
    """Fetch diffusers where it is missing: the package alone, into a folder of its own."""
    if (LIBRARY / "diffusers").exists():
        return
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", str(LIBRARY), "diffusers==0.38.0", "pillow"], check=True)


def traced(name: str) -> dict[str, Any]:
    """What the child says: figures, or the reason why there are none."""
    for line in TRACED.read_text("utf-8").splitlines() if TRACED.exists() else ():
        kept = json.loads(line)
        if kept["name"] == name:
            return dict(kept["found"])
    adapter = ADAPTERS[name]
    config = None if adapter is None else {"target_modules": LINEARS, **adapter}
    command = [sys.executable, str(CHILD), json.dumps({"peft": config, "steps": STEPS, "device": CARD})]
    places = os.pathsep.join((str(ROOT / "src"), str(LIBRARY)))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": places}
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"why": f"not traced within {LIMIT_S} s"}
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {"why": last_line(ended.stderr)}
    if "why" not in found:
        with TRACED.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "found": found}) + "\n")
    print(f"{name}: {found.get('why') or 'traced'}", flush=True)
    return found


def last_line(text: str) -> str:
    """The last line of what a process said."""
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def show(table: dict[str, tuple[tuple[int, int], dict[str, Any]]]) -> None:
    """The rows in GB, those without a figure with their reasons, and the errors."""
    good = {name: pair for name, pair in table.items() if "why" not in pair[1]}
    for name, (_, found) in table.items():
        if name not in good:
            print(f"  not traced: {name}: {found['why']}")
    if not good:
        sys.exit("no row was traced")
    after = {name: found["allocated"][1] / truth[0] - 1 for name, (truth, found) in good.items()}
    reserved = {name: found["peak_reserved"] / truth[1] - 1 for name, (truth, found) in good.items()}
    head = ("row", "trained", "after a step, GB", "traced", "error", "reserved, GB", "traced", "error")
    lines = [
        (
            name,
            f"{found['num_trained']:,}",
            f"{truth[0] / 1e9:.3f}",
            f"{found['allocated'][1] / 1e9:.3f}",
            f"{after[name]:+.2%}",
            f"{truth[1] / 1e9:.3f}",
            f"{found['peak_reserved'] / 1e9:.3f}",
            f"{reserved[name]:+.2%}",
        )
        for name, (truth, found) in good.items()
    ]
    print(aligned([head, *lines]))
    for label, errors in (("allocated after a step", after), ("reserved while training", reserved)):
        sizes = sorted(map(abs, errors.values()))
        print(f"{label}: n {len(sizes)}, median {statistics.median(sizes):.2%}, largest {sizes[-1]:.2%}")


if __name__ == "__main__":
    main()
