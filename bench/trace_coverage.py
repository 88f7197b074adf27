"""Which causal language models of transformers can be traced: small ones, on fake cuda tensors, on this machine's CPU.

    python bench/trace_coverage.py [--types llama,gpt2] [--real] [--out FILE.json]

For each model type: does it instantiate, train two steps with AdamW, generate four tokens with a cache. Every failure
is printed with its reason. `--real` asks the same without tracing, on real CPU tensors: what fails there too is no
failure of the trace.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "trace"))

from truth.compare import ANSWERS, Worker, covered  # noqa: E402 - support of the tests


def main() -> None:
    """Print a line for each failure, and the counts."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as KNOWN

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default=",".join(KNOWN))
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    worker = Worker()
    table: dict[str, Any] = {}
    for dtype in asked.dtypes.split(","):
        counts: Counter[str] = Counter()
        for model_type in asked.types.split(","):
            found = covered(worker, model_type, dtype, real=asked.real)
            counts.update(name for name in ANSWERS if found[name])
            counts["both"] += found["trains"] and found["generates"]
            table[f"{model_type} {dtype}"] = found
            if found["why"]:
                print(f"{model_type} {dtype}: {found['why']}", flush=True)
        print(f"{dtype}: " + ", ".join(f"{counts[name]} {name}" for name in (*ANSWERS, "both")), flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
