"""Collectives whose work is asked for its result, as communication hooks do: the fake group's work has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future

RESULT_FIRST = ("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
                "broadcast", "reduce")  # fmt: skip
"""Their first argument is where the result goes."""


def replacements() -> dict[Any, Any]:
    """The functions whose work gets a result."""
    return {function: _with_result(function) for function in (getattr(dist, name) for name in RESULT_FIRST)}


def _with_result(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **named: Any) -> Any:
        work = function(*args, **named)
        if work is None or not named.get("async_op", False):
            return work
        result = args[0] if args else next(iter(named.values()))
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result([result] if isinstance(result, torch.Tensor) else list(result))
        return _create_work_from_future(future)

    return called
