"""Run programs in children: `python worker.py` reads one job a line and answers each with one line of JSON.

A job is `{"what": ..., "programs": [[kind, {argument: value}], ...]}`; the answer is a list as long as its programs, of
curves or of `{"error": ...}`. Each job has a process of its own, forked from one that has imported everything; one
thread, nothing of a job is left.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
import torch
import transformers
import transformers.models.llama.modeling_llama  # and all that every model imports, once for all children
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from truth import coverage, recorder
from truth.gradients import used
from truth.others import other
from truth.programs import Program, generation, program
from truth.recipes import RECIPES
from truth.sample import LOOPS_OVER_EXPERTS

LIMIT_SECONDS = 600


def main() -> None:
    """Answer jobs until the input ends."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    for line in sys.stdin:
        job = json.loads(line)
        for _, arguments in job["programs"]:
            _import(arguments.get("model_type"))
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(null, 2)
            signal.alarm(LIMIT_SECONDS)
            with os.fdopen(writes, "wb") as out:
                out.write(msgspec.json.encode([_done(job["what"], *program) for program in job["programs"]]))
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads, "rb") as answer:
            found = answer.read()
        _, status = os.waitpid(child, 0)
        answers.write(
            (found or json.dumps([{"error": f"ended by status {status}"}] * len(job["programs"])).encode()) + b"\n"
        )


def _import(model_type: str | None) -> None:
    """Have the model's module here, so that no child needs to read it again."""
    if model_type is not None:
        with contextlib.suppress(Exception):
            MODEL_FOR_CAUSAL_LM_MAPPING[CONFIG_MAPPING[model_type]]


def _done(what: str, kind: str, arguments: dict[str, Any]) -> Any:
    try:
        if "dtype" in arguments:
            arguments["dtype"] = getattr(torch, arguments["dtype"])
        more = {"evenly": True} if what == "real" and arguments.get("model_type") in LOOPS_OVER_EXPERTS else {}
        return WAYS[what]((PROGRAMS | RECIPES)[kind](**arguments), **more)
    except BaseException as error:
        return {"error": coverage.told(error)}


PROGRAMS: dict[str, Callable[..., Program]] = {
    "program": program,
    "generation": generation,
    "other": other,
    "used": used,
}
WAYS = {
    "real": recorder.real,
    "bare": recorder.bare,
    "traced as bare": functools.partial(recorder.traced, watched=False),
    "traced": recorder.traced,
    "counted_twice": recorder.counted_twice,
    "runs": coverage.runs,
    "traces": coverage.traces,
}

if __name__ == "__main__":
    main()
