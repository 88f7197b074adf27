"""A measured case made ready: its engine, its model, what was asked of it, and what speaks against comparing it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from capienza.architecture.model import Architecture
from capienza.errors import InputError, Message
from capienza.predict.inference.engines import MODULES
from capienza.predict.inference.serving import Serving
from capienza.validate import reasons
from capienza.validate.row_check import impossible
from capienza.validate.row_model import row_architecture
from capienza.validate.row_serving import row_serving

Row = Mapping[str, Any]
OTHER_NAMES = {"hf": "transformers", "trtllm": "tensorrt-llm", "text-generation-inference": "tgi"}
_GROUP = re.compile(r"g\d+", re.ASCII)
DYNAMIC_NAMES = ("unsloth-bnb", "unsloth bnb")
"""Unsloth's repositories "...-unsloth-bnb-4bit" keep some layers in 16 bit; its "...-bnb-4bit" do not."""
OTHER_HEADS = ("speech head", "other head", "another head", "reward", "classif", "embedding model")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A row that was read. Without a `serving` nothing can be predicted, and `problem` says why.

    `odd` speaks against every figure, `uncertain_model` against all that is not had from a logged pool, and
    `uncertain_weights` against those that need the size of the weights; without `has_weights` there is no such size.
    """

    row: dict[str, Any]
    engine: str
    architecture: Architecture | None = None
    serving: Serving | None = None
    problem: Message | None = None
    odd: Message | None = None
    uncertain_model: Message | None = None
    uncertain_weights: Message | None = None
    has_weights: bool = True


def read_case(row: Row) -> Case:
    """Never raises: what is not understood is the case's `problem`."""
    model = uncertain_model(row)
    case = Case(
        row=dict(row),
        engine=engine_name(str(row.get("engine") or "")),
        odd=_odd(row),
        uncertain_model=model,
        uncertain_weights=model or uncertain_weights(row),
    )
    if not row.get("arch"):
        return msgspec.structs.replace(case, odd=case.odd or reasons.NO_ARCHITECTURE())
    wrong = impossible(row)
    if wrong is not None:
        return msgspec.structs.replace(case, problem=wrong)
    try:
        architecture = row_architecture(row)
        return _with_serving(case, architecture)
    except (InputError, ValueError) as error:
        why = _why(error) if isinstance(error, InputError) else str(error)
        return msgspec.structs.replace(case, problem=reasons.NOT_UNDERSTOOD(why=why))


def _with_serving(case: Case, architecture: Architecture) -> Case:
    """The case with what was asked; where the row does not tell the weights' bytes, the rest is still asked."""
    try:
        serving = row_serving(case.row, architecture)
    except ValueError:
        if case.uncertain_weights is None:
            raise
        serving = row_serving({**case.row, "weight_format": "bf16"}, architecture)
        return msgspec.structs.replace(case, architecture=architecture, serving=serving, has_weights=False)
    return msgspec.structs.replace(case, architecture=architecture, serving=serving)


def _why(error: InputError) -> str:
    """The error with the key that it is about."""
    key, text = error.place.key, str(error.message)
    return text if not key or key in text else f"{key}: {text}"


def engine_name(text: str) -> str:
    """The engine by the name that cards write, found in "HF transformers"; the text where it is none."""
    words = text.lower().replace("_", "-").split()
    for word in words:
        name = re.sub(r"[(),].*", "", OTHER_NAMES.get(word, word))
        if name in MODULES and name != "transformers":
            return name
    return "transformers" if "transformers" in words else text


def uncertain_model(row: Row) -> Message | None:
    """Why this may be another model than the row's `arch`; None when it is that one."""
    if row.get("model_basis"):
        return reasons.INFERRED(basis=str(row["model_basis"]))
    if any(word in str(row.get("model") or "").lower() for word in OTHER_HEADS):
        return reasons.OTHER_HEAD()
    return None


def uncertain_weights(row: Row) -> Message | None:
    """Why the weights that this case loaded cannot be known from the row; None when they can."""
    model, stored = str(row.get("model") or "").lower(), str(row.get("weight_format") or "").lower()
    is_4bit = "bitsandbytes" in stored or "nf4" in stored
    if "dynamic" in stored or (is_4bit and any(name in model for name in DYNAMIC_NAMES)):
        return reasons.MIXED_BITS()
    if "gguf" in stored or "gguf" in model:
        return reasons.FILE_FORMAT()
    if ("int4" in stored or "w4a16" in stored) and "compressed" in stored and not _GROUP.search(stored):
        return reasons.NO_GROUP()
    if "on cpu" in stored or "offload" in stored:
        return reasons.PARTLY_ON_HOST()
    arch = row.get("arch") or {}
    if arch.get("vision") and arch.get("extra_params_m") is None:
        return reasons.NO_VISION_SIZE()
    return None


def _odd(row: Row) -> Message | None:
    return reasons.ODD(why=str(row["flag"])) if row.get("flag") else None
