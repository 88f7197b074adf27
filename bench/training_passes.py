"""How long the closed form of a training's passes takes.

python bench/training_passes.py [--rounds N]

Prints the least milliseconds of the rounds for each shipped model and method, or why there are none. How far the form
is from a trace is a test (tests/trace/test_training_passes_trace.py).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from capienza.architecture.registry import describe
from capienza.errors import CapienzaError
from capienza.predict.training.passes import passes
from capienza.recipe.recipe import Adapters, Checkpointing, Evaluation, Loss, Optimizer, Precision, Recipe

CONFIGS = Path(__file__).parents[1] / "examples" / "configs"
TOKENS = 2048
LORA = Adapters(rank=16, alpha=16, dropout=0.0, targets=("all-linear",), dtype="fp32")
FULL = Recipe(
    framework="transformers", framework_version=None, objective="sft", method="full", tokens=TOKENS, microbatch=1,
    accumulation=1, is_packed=True, has_padding_mask=False, attention="sdpa", kernels="transformers", is_compiled=False,
    precision=Precision(base="bf16", trained="bf16"), optimizer=Optimizer(family="adamw", run="fused"),
    checkpointing=Checkpointing(kind="full"), loss=Loss(kind="full"), evaluation=Evaluation(microbatch=0),
)  # fmt: skip
METHODS = {
    "full": FULL,
    "lora": msgspec.structs.replace(
        FULL, method="lora", adapters=LORA, precision=Precision(base="bf16", trained="fp32", autocast="bf16")
    ),
    "qlora": msgspec.structs.replace(
        FULL, method="qlora", adapters=LORA,
        precision=Precision(base="bf16", trained="fp32", autocast="bf16", quantised="nf4_double", widens_rest=True),
    ),
}  # fmt: skip


def main() -> int:
    """One line for each model and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most-ms", type=float, default=25.0, help="what the slowest may take in the median")
    options = parser.parse_args()
    times = []
    for folder in sorted(CONFIGS.iterdir()):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        for method, recipe in METHODS.items():
            print(f"{folder.name:45} {method:6} {_line(config, recipe, options.rounds, times)}")
    slowest = max(times)
    print(f"median {statistics.median(times):.1f} ms, slowest {slowest:.1f} ms")
    return 0 if slowest <= options.most_ms else 1


def _line(config: dict[str, Any], recipe: Recipe, rounds: int, times: list[float]) -> str:
    try:
        architecture = describe(config)
        found = passes(architecture, recipe, config)
    except CapienzaError as error:
        return str(error.message)[:110]
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        passes(architecture, recipe, config)
        taken.append((time.perf_counter() - began) * 1e3)
    times.append(min(taken))
    forward, backward = found.forward, found.backward
    return (
        f"{min(taken):6.1f} ms  forward {forward.total_bytes / 2**30:7.2f} GiB at {forward.where}, "
        f"backward {backward.total_bytes / 2**30:7.2f} GiB at {backward.where}"
    )


if __name__ == "__main__":
    sys.exit(main())
