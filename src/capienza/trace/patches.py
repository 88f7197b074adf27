"""Everything that is changed in PyTorch and transformers while a program is traced, and put back after it.

Each entry says what would go wrong without it. `torch._dynamo` is imported before: when it is imported, which an
optimizer causes, it makes tables of the functions it finds and refuses one that stands for two names. Seen with torch
2.13 and transformers 5.24; `probe` and the tests of this room try each of them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo
import torch.nn.attention.flex_attention
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import _foreach_supported_types as in_optimizers
from torch.utils._foreach_utils import _foreach_supported_types as in_clipping

from capienza.allocator.settings import Settings
from capienza.errors import UsageError, template
from capienza.trace import cuda_api, outside, quantised, recurrent, shadow, streams, threads
from capienza.trace.machine import Machine
from capienza.trace.parameters import made_from_fakes
from capienza.trace.scene import CACHE, Scene
from capienza.trace.swap import swapped
from capienza.trace.tracker import Tracker

NOT_TRACED = template(
    "trace.not-traced",
    "{name} is not supported: what it would compile cannot be traced",
    "trace the program without it; its peak is then that of eager mode",
)
FLEX = "flex_attention"


@contextlib.contextmanager
def patched(tracker: Tracker, machine: Machine, settings: Settings) -> Iterator[None]:
    """Inside, the program meets a PyTorch with one CUDA device of that kind."""
    with contextlib.ExitStack() as undo:
        for owner, attribute, value in _changes(tracker, machine, settings):
            undo.enter_context(swapped(owner, attribute, value))
        undo.enter_context(outside.kept())
        undo.callback(tracker.place.leave)
        undo.enter_context(_foreach())
        undo.enter_context(made_from_fakes())
        yield


def hide_fakes() -> list[tuple[Any, str, Any]]:
    """Transformers keeps masks and takes other ways where it sees a fake tensor; it is told that there is none.

    The function is imported by name in several places, so it is changed wherever it lies now.
    """
    utils = sys.modules.get("transformers.utils.import_utils")
    known = getattr(utils, "is_fake_tensor", None)
    if known is None:
        return []
    return [
        (module, "is_fake_tensor", lambda _tensor: False)
        for key, module in list(sys.modules.items())
        if key.startswith("transformers") and module is not None and module.__dict__.get("is_fake_tensor") is known
    ]


def _caches(scene: Scene) -> list[tuple[Any, str, Any]]:
    """Keys and values that a cache gives out lie in it: so it is known what they are for."""
    module = sys.modules.get("transformers.cache_utils")
    if module is None:
        return []
    update = module.Cache.update

    def marked(*args: Any, **kwargs: Any) -> Any:
        out = update(*args, **kwargs)
        for one in out if isinstance(out, tuple) else ():
            if isinstance(one, torch.Tensor):
                scene.mark(one, CACHE, None)
        return out

    return [(module.Cache, "update", marked)]


@contextlib.contextmanager
def in_libraries(scene: Scene) -> Iterator[None]:
    """Inside, the libraries that are imported by now behave on fake tensors as on real ones."""
    with contextlib.ExitStack() as undo:
        for owner, attribute, value in (*hide_fakes(), *_caches(scene), *quantised.changes()):
            undo.enter_context(swapped(owner, attribute, value))
        yield


def _changes(tracker: Tracker, machine: Machine, settings: Settings) -> list[tuple[Any, str, Any]]:
    def resize(storage: torch.UntypedStorage, size: int) -> Any:
        answer = real_resize(storage, size)
        tracker.resize(storage)
        return answer

    def swap(first: torch.Tensor, second: torch.Tensor) -> None:
        if not (isinstance(first, FakeTensor) and isinstance(second, FakeTensor)):
            real_swap(first, second)
        elif first.is_meta == second.is_meta:
            first.data = second.data
            first.fake_device = second.fake_device
        else:
            # `.data =` refuses to go from or to the meta device.
            first.__dict__, second.__dict__ = second.__dict__, first.__dict__
            torch._C._swap_tensor_impl(first, second)

    def refuse(what: object = None, *_args: object, **_kwargs: object) -> Any:
        is_flex = getattr(what, "__module__", "") == torch.nn.attention.flex_attention.__name__
        raise UsageError(NOT_TRACED(name=FLEX if is_flex else "torch.compile"))

    def refuse_flex(*_args: object, **_kwargs: object) -> Any:
        raise UsageError(NOT_TRACED(name=FLEX))

    real_resize, real_swap = torch.UntypedStorage.resize_, torch.utils.swap_tensors

    changes: list[tuple[Any, str, Any]] = [
        # FSDP gives memory back and takes it again through this; it is no operation.
        (torch.UntypedStorage, "resize_", resize),
        # Module.to swaps fake parameters, which their own weak references refuse.
        (torch.utils, "swap_tensors", swap),
        # It takes another way where it sees a fake tensor.
        (torch.nn.functional, "one_hot", _one_hot(torch.nn.functional.one_hot)),
        # Compiling under a fake mode silently does nothing.
        (torch, "compile", refuse),
        (torch.nn.Module, "compile", refuse),
        # It compiles itself, and libraries hand it to torch.compile.
        (torch.nn.attention.flex_attention, FLEX, refuse_flex),
        *outside.changes(tracker, refuse),
        *threads.changes(tracker),
    ]
    if tracker.device_type != "cuda":
        return changes
    changes += cuda_api.changes(tracker, machine, settings)
    return [*changes, *recurrent.changes(), *streams.changes(tracker.place)]


def _one_hot(real: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """PyTorch compares with `arange` where it sees a fake tensor; a real one gets zeros and ones (Onehot.cpp)."""

    def one_hot(tokens: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        if num_classes < 1 or not isinstance(tokens, FakeTensor):
            return real(tokens, num_classes)
        if tokens.device.type == "cpu":  # where it reads the bounds, to refuse what lies outside
            for bound, value in zip(tuple(torch.aminmax(tokens)), (0, num_classes - 1), strict=True):
                shadow.give(bound, shadow.scalar(value))
                bound.item()
        found: torch.Tensor = torch.zeros((*tokens.shape, num_classes), dtype=tokens.dtype, device=tokens.device)
        return found.scatter_(-1, tokens.unsqueeze(-1), 1)

    return one_hot


@contextlib.contextmanager
def _foreach() -> Iterator[None]:
    """Optimizers and clipping choose their foreach form by the type of the tensors, as they do for real ones."""
    lists: tuple[list[Any], ...] = (in_optimizers, in_clipping)
    for one in lists:
        one.append(FakeTensor)
    try:
        yield
    finally:
        for one in lists:
            one.remove(FakeTensor)
