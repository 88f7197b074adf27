"""Collectives on fake tensors.

The fake group's work has no result to give to a communication hook, and does not hold the tensors that it works on as
long as it lives, as that of a real group does; so it gets both. Waiting for a functional collective
gives back the tensor itself, where the rule for fake tensors makes another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

from capienza.trace.tracker import HANDLERS, Tracker

c10d: Any = _distributed_c10d
RESULT_FIRST = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_single", "reduce_scatter",
    "reduce_scatter_tensor", "reduce_scatter_single", "broadcast", "reduce",
)  # fmt: skip
"""Their first argument is where the result goes."""
ALWAYS_LATER = ("isend", "irecv")


def replacements() -> dict[Any, Any]:
    """The functions whose work gets a result."""
    return {
        function: _with_result(function, is_later=name in ALWAYS_LATER)
        for name in (*RESULT_FIRST, *ALWAYS_LATER)
        if (function := getattr(dist, name, None))
    }


def _with_result(function: Callable[..., Any], is_later: bool) -> Callable[..., Any]:
    def called(*args: Any, **named: Any) -> Any:
        work = function(*args, **named)
        if work is None or not named.get("async_op", is_later):
            return work
        result = args[0] if args else next(iter(named.values()))
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result([result] if isinstance(result, torch.Tensor) else list(result))
        return c10d._create_work_from_future(future)

    return called


def _waited(_tracker: Tracker, _func: Any, args: tuple[Any, ...], _named: dict[str, Any]) -> torch.Tensor:
    tensor: torch.Tensor = args[0]
    return tensor


HANDLERS[torch.ops._c10d_functional.wait_tensor.default] = _waited
