"""The optimizer of a training case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from capienza.recipe.recipe import Optimizer
from capienza.validate.training_habits import Habit
from capienza.validate.training_words import family, text, version_of

FOREACH_SINCE = (2, 0)
FUSED_SINCE = (2, 8)
"""From these releases of torch on: AdamW walks by foreach; the HF Trainer asks for the fused kernel."""


def training_optimizer(row: Mapping[str, Any], habit: Habit) -> Optimizer | None:
    """The optimizer that a case states, None where it states none. Raises `InputError` for one that no recipe has."""
    said = text(row.get("optimizer"))
    kind = family(said)
    if kind is None:
        return None
    if kind == "galore_adamw" or kind == "apollo_adamw":
        return Optimizer(family=kind, run="loop", in_backward=_in_backward(row), projection_rank=_rank(row))
    bits = _state_bits(said)
    is_paged = "paged" in said
    library = _library(said, bits, is_paged)
    return Optimizer(
        family=kind,
        run=_run(row, said, habit) if library == "torch" else "loop",
        state_bits=bits,
        is_paged=is_paged,
        in_backward=_in_backward(row),
        has_momentum=kind != "sgd" or "momentum" in said,
        library=library,
    )


def _run(row: Mapping[str, Any], said: str, habit: Habit) -> Literal["foreach", "fused", "loop"]:
    if "fused" in said and "non-fused" not in said:
        return "fused"
    if "loop" in said or "foreach=false" in said or ("hf adamw" in said and "torch" not in said):
        return "loop"
    if "foreach" in said:
        return "foreach"
    torch = version_of("torch", row.get("framework_version"))
    if torch is not None and torch < FOREACH_SINCE:
        return "loop"
    return "fused" if habit.is_hugging_face and torch is not None and torch >= FUSED_SINCE else "foreach"


def _state_bits(said: str) -> Literal[0, 4, 8, 32]:
    found = re.search(r"([48])[- _]?bit|adamw?([48])bit|fp(8)", said)
    if found:
        return 4 if "4" in found[0] else 8
    return 32 if "32bit" in said or "paged" in said else 0


def _library(said: str, bits: int, is_paged: bool) -> Literal["torch", "bitsandbytes", "torchao", "transformers"]:
    if "torchao" in said or re.search(r"adamw_torch_[48]bit|lpmm", said):
        return "torchao" if bits in (4, 8) else "torch"
    if is_paged or bits in (4, 8) or "bnb" in said:
        return "bitsandbytes"
    return "transformers" if "adafactor" in said else "torch"


def _in_backward(row: Mapping[str, Any]) -> bool:
    said = f"{text(row.get('optimizer'))} {text(row.get('method'))}"
    return re.search(r"in[- ]backward|per[- _]layer", said) is not None


def _rank(row: Mapping[str, Any]) -> int | None:
    found = re.search(r"\br(?:ank)?[ =]?(\d{1,5})\b", text(row.get("method")))
    return int(found[1]) if found else None
