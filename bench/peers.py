"""Other tools that size a model, as anyone installs them from PyPI, and what they must answer to be worth timing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fixtures import FOLDER, MODEL_ID
from measured import Command, Run

VENV = FOLDER / "peers"
NAMES = ("kvfit", "hf-mem")
TOKENS = 32768
GIB = 1024**3
WEIGHTS_GIB, CACHE_GIB = 14.958, 4.0
"""16,060,522,496 B, and 32 layers x 2 x 8 heads x 128 x 2 B x 32768 tokens."""


def install() -> str:
    """Make the peers' own environment where it is missing; their names and versions."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", *NAMES], check=True)
    code = (
        "import sys; from importlib.metadata import version;"
        "print(', '.join(f'{name} {version(name)}' for name in sys.argv[1:]))"
    )
    return subprocess.run([python, "-c", code, *NAMES], check=True, capture_output=True, text=True).stdout.strip()


def commands(environment: Mapping[str, str], certificate: Path) -> list[Command]:
    """The same question to each: Llama-3.1-8B in bf16, 32768 tokens, one sequence."""
    inside = {**environment, "SSL_CERT_FILE": str(certificate)}
    tokens = str(TOKENS)
    kvfit = ["kvfit", MODEL_ID, "--hardware", "h100-80", "--gpus", "1", "--context", tokens]
    hf_mem = ["hf-mem", "--model-id", MODEL_ID, "--experimental", "--max-model-len", tokens, "--batch-size", "1"]
    return [
        Command("kvfit", [VENV / "bin" / kvfit[0], *kvfit[1:], "--concurrent-users", "1", "--json"], inside),
        Command("hf-mem", [VENV / "bin" / hf_mem[0], *hf_mem[1:], "--json-output"], inside),
    ]


def check_answer(name: str, run: Run) -> None:
    """Stop when a peer did not give the right weights and cache: a fast wrong answer is no yardstick."""
    answer = json.loads(run.stdout)
    weights_gib, cache_gib = {"kvfit": _kvfit, "hf-mem": _hf_mem}[name](answer)
    if abs(weights_gib - WEIGHTS_GIB) > 0.01 or abs(cache_gib - CACHE_GIB) > 0.001:
        sys.exit(f"{name} answered {weights_gib} GiB of weights and {cache_gib} GiB of cache: {answer}")


def _kvfit(answer: Any) -> tuple[float, float]:
    return answer["model"]["weight_bytes"] / GIB, answer["cache"]["bytes_per_sequence"] / GIB


def _hf_mem(answer: Any) -> tuple[float, float]:
    return answer["memory"] / GIB, answer["kv_cache"] / GIB
