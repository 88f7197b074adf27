"""Does a program run, for real on the CPU or traced on fake cuda tensors, and if not, where does it stop?"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

from capienza.trace import run
from capienza.trace.machine import Machine
from truth.programs import Program

CARD = Machine("RTX 4090", (8, 9), 24 << 30)
LIMIT_SECONDS = 60
Answer = dict[str, Any]


def runs(program: Program, steps: int = 2) -> Answer:
    """Build it and run its step so many times on the CPU."""
    build, step = program
    stage = "build"
    try:
        state = build()
        stage = "step"
        for _ in range(steps):
            step(state)
    except BaseException as error:
        return {"stage": stage, "why": told(error)}
    return {"stage": "done"}


def traces(program: Program, steps: int = 2) -> Answer:
    """The same on fake cuda tensors."""
    build, step = program
    stage = "build"

    def built() -> Any:
        nonlocal stage
        state = build()
        stage = "step"
        return state

    try:
        found = run.trace(built, step, steps=steps, machine=CARD, device_type=run.CUDA, most_seconds=LIMIT_SECONDS)
    except BaseException as error:
        return {"stage": stage, "why": told(error)}
    guesses = [f"{guess.op} -> {guess.answer} x{guess.count}" for guess in found.guesses]
    answer = {"stage": "done", "guesses": guesses, "kernels": dict(found.kernels), "ops": len(found.op_names)}
    return answer | {"device": found.device_type, "seconds": round(found.seconds, 2)}


def told(error: BaseException) -> str:
    """The error, and where in the model's code it rose."""
    cause = error.__cause__ or error
    frames = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in frames if f"{os.sep}models{os.sep}" in frame.filename] or frames
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    text = " ".join(str(cause).split())[:300]
    return f"{type(cause).__name__}: {text} ({where})"
