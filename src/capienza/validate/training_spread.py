"""How the ranks of a training case share the work, from the words of its `parallelism`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from capienza.recipe.recipe import Dtype, Parallel, Sharding
from capienza.validate.training_words import count, text

_ZERO = re.compile(r"zero-?\s?([123])")
_KEPT = re.compile(r"reshard\w*[ =:-]*(never|false)|-never\b|kept from forward to backward")
"""Words for parameters that stay gathered between the passes."""


def training_spread(row: Mapping[str, Any], autocast: Dtype | None, is_hugging_face: bool) -> tuple[Parallel, bool]:
    """The ranks, and whether the case says how they share. Raises `InputError` for a number of GPUs that cannot be."""
    gpus = count("num_gpus", row.get("num_gpus")) or 1
    precision, said = text(row.get("mixed_precision")), text(row.get("parallelism"))
    tensor = _ranks(r"tp[ =x]*(\d+)", said)
    pipeline = _ranks(r"pp[ =x]*(\d+)", said)
    data = max(1, gpus // (tensor * pipeline))
    sharding, is_stated = _sharding(f"{said} {precision}", data)
    is_titan = "mixedprecisionpolicy" in precision or "float8" in precision
    has_policy = is_titan or (sharding in ("fsdp1", "fsdp2") and is_hugging_face and autocast is not None)
    return Parallel(
        sharding=sharding,
        data_ranks=data,
        shard_ranks=data if sharding not in ("none", "ddp") else 1,
        tensor_ranks=tensor,
        pipeline_ranks=pipeline,
        parameter_dtype=("bf16" if is_titan else autocast) if has_policy else None,
        reduce_dtype="fp32" if is_titan else None,
        unsharded=_KEPT.search(f"{text(row.get('id'))} {text(row.get('notes'))}") is not None,
        offload="parameters" if "cpu offload" in said else "none",
    ), is_stated


def _ranks(pattern: str, said: str) -> int:
    found = re.search(rf"\b{pattern}", said)
    return max(1, min(int(found[1][:6]), 2**20)) if found else 1


def _sharding(said: str, data: int) -> tuple[Sharding, bool]:
    if zero := _ZERO.search(said):
        stage: dict[str, Sharding] = {"1": "zero1", "2": "zero2", "3": "zero3"}
        return stage[zero[1]], True
    if data == 1:
        return "none", True
    if "fsdp" in said and "fsdp=none" not in said:
        return "fsdp2" if re.search(r"fsdp\s?2", said) else "fsdp1", True
    return "ddp", "ddp" in said
