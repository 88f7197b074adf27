"""Run programs in children: `python worker.py` reads one job a line and answers each with one line of JSON.

A job is `{"what": "real" | "traced", "kind": ..., "arguments": {...}}`; the answer is a curve, or `{"error": ...}`.
Each job has a process of its own, forked from one that has imported everything; one thread, nothing of a job is left.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
import torch
import transformers
import transformers.models.llama.modeling_llama  # and all that every model imports, once for all children

from truth import coverage, recorder
from truth.programs import PROGRAMS

LIMIT_SECONDS = 120


def main() -> None:
    """Answer jobs until the input ends."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    for line in sys.stdin:
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(null, 2)
            signal.alarm(LIMIT_SECONDS)
            with os.fdopen(writes, "wb") as out:
                out.write(msgspec.json.encode(_done(json.loads(line))))
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads, "rb") as answer:
            found = answer.read()
        _, status = os.waitpid(child, 0)
        answers.write((found or json.dumps({"error": f"ended by status {status}"}).encode()) + b"\n")


def _done(job: dict[str, Any]) -> Any:
    try:
        arguments = dict(job["arguments"])
        if "dtype" in arguments:
            arguments["dtype"] = getattr(torch, arguments["dtype"])
        return WAYS[job["what"]](PROGRAMS[job["kind"]](**arguments))
    except BaseException as error:
        return {"error": coverage.told(error)}


WAYS = {"real": recorder.real, "traced": recorder.traced, "runs": coverage.runs, "traces": coverage.traces}

if __name__ == "__main__":
    main()
