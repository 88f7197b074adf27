"""DTensor on fake tensors: what it computes to learn shapes is no work of the program."""

from __future__ import annotations

from typing import Any

from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import _disable_current_modes


def changes() -> list[tuple[Any, str, Any]]:
    """DTensor runs each operation once on fake tensors of its own, whose storages must not be counted."""
    real = ShardingPropagator._propagate_tensor_meta_non_cached

    def unseen(propagator: ShardingPropagator, schema: Any) -> Any:
        with _disable_current_modes():
            return real(propagator, schema)

    return [(ShardingPropagator, "_propagate_tensor_meta_non_cached", unseen)]
