"""DistributedDataParallel on the fake group: what its C++ parts read from real memory is done here instead.

Seen with torch 2.13 (torch/csrc/distributed/c10d/reducer.cpp, comm.cpp). Comparing shapes between ranks holds nothing
worth counting. Rank 0's parameters and buffers are sent in flat copies, two of which are alive at a time. The
reducer's own hook takes its bucket from a result that the fake group does not have, so the same hook is given in
Python. After the first step the reducer would sort its buckets by the order in which gradients came; here they keep the
first order, with the same bytes in all. Its map of used parameters, 4 B each, stays in main memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from capienza.trace.scene import COMMUNICATION, Scene

dist: Any = torch.distributed
"""Much of it is not declared for others to use."""
IN_FLIGHT = 2
BUCKETS = "Reducer._rebuild_buckets"


def changes(scene: Scene, note: Callable[[str], None]) -> list[tuple[Any, str, Any]]:
    """What is changed in PyTorch."""
    real_forward = DistributedDataParallel._pre_forward
    has_hook: set[int] = set()

    def forward(model: DistributedDataParallel, *inputs: Any, **named: Any) -> Any:
        if id(model.reducer) not in has_hook:
            has_hook.add(id(model.reducer))
            note(BUCKETS)
            if not model._comm_hooks:
                dist._register_comm_hook(model.reducer, None, _as_it_is)
        return real_forward(model, *inputs, **named)

    def with_map(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            with scene.making(COMMUNICATION), _MapInMainMemory():
                return function(*args, **named)

        return called

    def builtin(reducer: Any, kind: Any) -> None:
        has_hook.add(id(reducer))
        is_half = kind == dist.BuiltinCommHookType.FP16_COMPRESS
        dist._register_comm_hook(reducer, None, default_hooks.fp16_compress_hook if is_half else _as_it_is)

    return [
        (DistributedDataParallel, "_pre_forward", forward),
        (DistributedDataParallel, "_ddp_init_helper", with_map(DistributedDataParallel._ddp_init_helper)),
        (DistributedDataParallel, "_set_static_graph", with_map(DistributedDataParallel._set_static_graph)),
        (dist, "_register_builtin_comm_hook", builtin),
        (dist, "_verify_params_across_processes", lambda *_args: None),
        (dist, "_broadcast_coalesced", broadcast),
        (dist.Reducer, "_rebuild_buckets", lambda _reducer: False),
        (dist.Logger, "set_runtime_stats_and_log", lambda _logger: None),
    ]


class _MapInMainMemory(TorchDispatchMode):
    """The reducer's map of used parameters stays in main memory, as its way to the GPU reads addresses."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if func is torch.ops.aten.empty.memory_format and named.get("dtype") == torch.int32:
            named["device"] = torch.device("cpu")
        return func(*args, **named)


def broadcast(_group: Any, tensors: list[torch.Tensor], buffer_bytes: int, _source: int = 0) -> None:
    """Send tensors in flat copies of at most so many bytes, and write what came back over them."""
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, [buffer_bytes])
    flying: deque[tuple[torch.Tensor, list[torch.Tensor]]] = deque()
    for bucket in buckets:
        if len(flying) == IN_FLIGHT:
            _land(*flying.popleft())
        together = [tensors[index] for index in bucket]
        flying.append((torch._utils._flatten_dense_tensors(together), together))
    while flying:
        _land(*flying.popleft())


def _land(flat: torch.Tensor, tensors: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for tensor, part in zip(tensors, torch._utils._unflatten_dense_tensors(flat, tensors), strict=True):
            tensor.copy_(part)


def _as_it_is(_state: object, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
