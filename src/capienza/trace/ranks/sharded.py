"""Device meshes and DTensor on fake tensors: what they compute to find their way is no work of the program.

A mesh is a small tensor of ranks in main memory, whose values are read; it stays a real one. DTensor runs each
operation once on fake tensors of its own, to learn shapes; their storages are not counted. It takes other ways where it
sees that it is traced, which a real run does not take, so it is told that it is not; and it moves the state of a
generator that is not there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import _functional_collectives, device_mesh
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import _random
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import _disable_current_modes

METHODS = ("__getitem__", "_flatten", "_unflatten", "_get_all_submeshes")


def changes() -> list[tuple[Any, str, Any]]:
    """What runs outside the trace."""
    propagated = ShardingPropagator._propagate_tensor_meta_non_cached
    found = [(DeviceMesh, name, _outside(getattr(DeviceMesh, name))) for name in METHODS if hasattr(DeviceMesh, name)]
    return [
        *found,
        (DeviceMesh, "__init__", _made(DeviceMesh.__init__)),
        (DeviceMesh, "mesh", property(_outside(vars(DeviceMesh)["mesh"].fget))),
        (_random, "_rng_tracker", None),
        (_random.OffsetBasedRNGTracker, "_distribute_region", lambda *_args, **_named: contextlib.nullcontext()),
        (ShardingPropagator, "_propagate_tensor_meta_non_cached", _outside(propagated)),
    ]


def replacements() -> dict[Any, Any]:
    """Functions that make a mesh, or ask whether they are traced."""
    return {
        device_mesh.init_device_mesh: _outside(device_mesh.init_device_mesh),
        _functional_collectives._are_we_tracing: lambda: False,
    }


def _outside(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **named)

    return called


def _made(init: Callable[..., Any]) -> Callable[..., Any]:
    """A mesh from a tensor of the traced program is made from its values."""
    outside = _outside(init)

    @functools.wraps(init)
    def made(self: DeviceMesh, device_type: str, mesh: Any = None, **named: Any) -> None:
        outside(self, device_type, mesh.tolist() if isinstance(mesh, torch.Tensor) else mesh, **named)

    return made
