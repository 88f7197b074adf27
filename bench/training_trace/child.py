"""One row's program, traced: a child of `run.py`, run in the environment of the row's releases.

Reads {"program", "device", "row"} from standard input; prints the figures as one line of JSON, or {"why": ...}.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from typing import Any

import torch


def main() -> None:
    """Trace, and say what was found."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(json.dumps(traced(json.loads(sys.stdin.read()))), flush=True)


def traced(asked: dict[str, Any]) -> dict[str, Any]:
    """The figures of one trace in bytes, or the reason why there are none."""
    from capienza.errors import CapienzaError
    from capienza.trace import predict_peak

    build, step, steps = importlib.import_module(asked["program"]).program(asked["row"])
    try:
        found = predict_peak(build, step, steps=steps, device=asked["device"])
    except CapienzaError as error:
        return {"why": str(error)}
    gpu = found.gpus[0]
    return {
        "allocated_bytes": gpu.allocated_bytes,
        "reserved_bytes": gpu.reserved_bytes,
        "phases": {phase.phase: phase.allocated_bytes for phase in gpu.phases},
        "holders": [[one.module, one.category, one.size_bytes, one.op] for one in gpu.holders[:8]],
        "operations": len(found.traced.op_names),
        "seconds": round(found.traced.seconds, 1),
        "guesses": [f"{one.op} in {one.module}: {one.answer}" for one in found.guesses],
        "unknown": [str(message) for message in found.unknown],
        "warnings": [str(message) for message in found.warnings],
    }


if __name__ == "__main__":
    main()
