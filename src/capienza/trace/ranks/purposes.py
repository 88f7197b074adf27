"""What the buffers of sharded and replicated training are for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.distributed.fsdp import _flat_param, _runtime_utils
from torch.distributed.fsdp._fully_shard import _fsdp_collectives, _fsdp_param

from capienza.trace.scene import COMMUNICATION, UNSHARDED, Scene


def changes(scene: Scene) -> list[tuple[Any, str, Any]]:
    """Methods that take memory for one purpose."""
    flat, sharded = _flat_param.FlatParamHandle, _fsdp_param.FSDPParam
    made = (
        (flat, "_alloc_padded_unsharded_flat_param", UNSHARDED),
        (flat, "init_flat_param_attributes", UNSHARDED),
        (flat, "_use_low_precision_shard", COMMUNICATION),
        (sharded, "init_all_gather_outputs", UNSHARDED),
        (sharded, "init_unsharded_param", UNSHARDED),
    )
    return [
        (owner, name, _for(scene, purpose, getattr(owner, name)))
        for owner, name, purpose in made
        if hasattr(owner, name)
    ]


def replacements(scene: Scene) -> dict[Any, Any]:
    """Functions that take memory for communication."""
    made = (
        _fsdp_collectives.foreach_all_gather,
        _fsdp_collectives.foreach_reduce,
        _runtime_utils._reduce_grad,
    )
    return {function: _for(scene, COMMUNICATION, function) for function in made}


def _for(scene: Scene, purpose: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        with scene.making(purpose):
            return function(*args, **named)

    return called
