"""What the two programs share: the model from its configuration, and a word on what was executed."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from capienza import measure


def device_of(case: dict[str, Any]) -> str:
    return "cpu" if case["cpu"] else "cuda:0"


def watched(case: dict[str, Any]) -> AbstractContextManager[None]:
    """Main memory keeps no statistics of its own; a GPU does."""
    return measure.cpu_allocator() if case["cpu"] else nullcontext()


def loaded(case: dict[str, Any]) -> Any:
    """The model with random weights, made where it will run."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(case["config"])
    with measure.phase("load"), torch.device(device_of(case)):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, case["dtype"]))


def executed(**figures: int) -> None:
    """One sequence or step as it was really run, for the record."""
    folder = os.environ.get("CAPIENZA_RUN")
    if folder:
        line = json.dumps({**figures, "truncated": False, "dropped": False})
        with (Path(folder) / "usage.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
