"""What a traced program does with the world outside the card: files, arrays, worker processes, modules it was given.

A trace must change nothing there. Each entry says what would go wrong without it; `patches` puts them in place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo.eval_frame
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import dataloader

from capienza.errors import UsageError, template
from capienza.trace import shadow
from capienza.trace.swap import swapped
from capienza.trace.tracker import HANDLERS, Tracker

Change = tuple[Any, str, Any]
ALONE = {"num_workers": 0, "timeout": 0, "pin_memory": False}
"""What a loader is without worker processes, and without the warning that there is no device to pin memory for."""
NOWHERE, ROOM_BITS = 1 << 62, 14
"""Addresses of fake storages: where no memory can lie, and far from each other."""
NOT_NESTED = template(
    "trace.not-nested",
    "a transformer encoder was run on padded rows: on a card it packs them first, which takes less for its layers",
)
MADE_OUTSIDE = template(
    "trace.made-outside",
    "an optimizer holds parameters that were made before the trace: its states would not be seen",
    "make the model and its optimizer in `build`",
)


def changes(tracker: Tracker, refuse: Callable[..., Any]) -> list[Change]:
    """What is changed, whatever the device is."""
    real_frame, real_numpy = torch._dynamo.eval_frame._maybe_set_eval_frame, torch.Tensor.numpy
    real_format = torch.Tensor.__format__
    real_address, real_storage_address = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr

    def not_nested(*_args: object) -> bool:
        tracker.assumed[NOT_NESTED.code] = NOT_NESTED()
        return False

    def set_frame(callback: Any) -> Any:
        return refuse() if callable(callback) else real_frame(callback)

    def numpy(tensor: torch.Tensor, *, force: bool = False) -> Any:
        if not isinstance(tensor, FakeTensor):
            return real_numpy(tensor, force=force)
        return _array(tracker, tensor, force)

    def formatted(tensor: torch.Tensor, spec: str) -> str:
        is_number = isinstance(tensor, FakeTensor) and tensor.dim() == 0
        return format(tensor.item(), spec) if is_number else real_format(tensor, spec)

    def address(tensor: torch.Tensor) -> int:
        if not isinstance(tensor, FakeTensor):
            return real_address(tensor)
        start = storage_address(tensor.untyped_storage())
        return start and start + int(tensor.storage_offset()) * tensor.element_size()

    def storage_address(storage: torch.UntypedStorage) -> int:
        if storage.device.type != "meta":
            return real_storage_address(storage)
        return NOWHERE + (storage._cdata << ROOM_BITS) if storage.nbytes() else 0

    def array(tensor: torch.Tensor, dtype: Any = None) -> Any:
        found = numpy(tensor)
        return found if dtype is None else found.astype(dtype, copy=False)

    return [
        # A function that was compiled before the trace would run as it is, without a word.
        (torch._dynamo.eval_frame, "_maybe_set_eval_frame", set_frame),
        # Metrics are worked out with arrays.
        (torch.Tensor, "numpy", numpy),
        (torch.Tensor, "__array__", array),
        # A loss is printed as a number; of a tensor of another type PyTorch prints only the type.
        (torch.Tensor, "__format__", formatted),
        # Programs tell by the address whether two tensors share memory; all fake ones lie at 0.
        (torch.Tensor, "data_ptr", address),
        (torch.UntypedStorage, "data_ptr", storage_address),
        # A nested tensor has no fake form; where the mask is not aligned to the left, PyTorch does without one too.
        (torch, "_nested_tensor_from_mask_left_aligned", not_nested),
        # Another process makes real tensors, or fails at its modes; what it holds is not on the card.
        (dataloader.DataLoader, "_get_iterator", _in_this_process),
    ]


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """A module that was made before the trace gets the tensors back that it had. An optimizer of such is refused."""
    had: dict[int, tuple[torch.nn.Module, dict[str, Any], dict[str, Any]]] = {}
    real = torch.nn.Module._apply

    def apply(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if id(module) not in had and any(_is_real(one) for one in _tensors(module)):
            had[id(module)] = module, dict(module._parameters), dict(module._buffers)
        return real(module, *args, **kwargs)

    handle = register_optimizer_step_pre_hook(_check)
    try:
        with swapped(torch.nn.Module, "_apply", apply):
            yield
    finally:
        handle.remove()
        for module, parameters, buffers in had.values():
            module._parameters.update(parameters)
            module._buffers.update(buffers)


@contextlib.contextmanager
def settings_kept() -> Iterator[None]:
    """What the program sets for the whole of PyTorch ends with it: the user's own program goes on with what it had."""
    device: Any = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    dtype, has_grad, state = torch.get_default_dtype(), torch.is_grad_enabled(), torch.random.get_rng_state()
    strict, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        if getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None) is not device:
            torch.set_default_device(None if device is None else device.device)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(has_grad)
        torch.use_deterministic_algorithms(strict, warn_only=warns)
        torch.random.set_rng_state(state)


def _check(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    """Of an optimizer that holds real tensors a trace sees nothing."""
    if any(_is_real(one) for group in optimizer.param_groups for one in group["params"]):
        raise UsageError(MADE_OUTSIDE())


def _tensors(module: torch.nn.Module) -> Iterator[torch.Tensor | None]:
    yield from module._parameters.values()
    yield from module._buffers.values()


def _is_real(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and not isinstance(tensor, FakeTensor) and shadow.is_plain(tensor)


def _array(tracker: Tracker, tensor: torch.Tensor, force: bool) -> Any:
    """The values of a tensor in main memory as an array: those that are known, else zeros."""
    if tensor.device.type != "cpu" and not force:
        refusal = f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() first."
        raise TypeError(refusal)
    if tensor.requires_grad and not force:
        refusal = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        raise RuntimeError(refusal)
    known = shadow.of(tensor)
    with torch._C._DisableTorchDispatch():
        if known is not None:
            return known.numpy()
        tracker.guesses.note("numpy", tracker.scene.module, "0")
        return torch.zeros(tensor.shape, dtype=tensor.dtype).numpy()


def _in_this_process(loader: Any) -> Any:
    before = {name: loader.__dict__[name] for name in ALONE}
    # The class refuses changes of some of its attributes; these are read when the iterator is made.
    loader.__dict__.update(ALONE)
    try:
        return dataloader._SingleProcessDataLoaderIter(loader)
    finally:
        loader.__dict__.update(before)


def _pinned(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """Pinned memory is main memory: a copy there."""
    copy: torch.Tensor = torch.ops.aten.clone.default(args[0])
    value = shadow.of(args[0])
    if value is not None:
        shadow.give(copy, value)
    return copy


HANDLERS[torch.ops.aten._pin_memory.default] = _pinned
