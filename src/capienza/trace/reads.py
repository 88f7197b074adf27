"""Operations whose answer or shape depends on values: from companions where there are, else from what is assumed."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from capienza.trace import guesses, shadow
from capienza.trace.tracker import HANDLERS, Tracker

aten = torch.ops.aten


def read(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`item()`, `bool()` and the like."""
    tensor = args[0]
    value = tensor if shadow.is_plain(tensor) else shadow.of(tensor)
    if value is not None:
        with torch._C._DisableTorchDispatch():
            return func(value, **kwargs)
    if tracker.guesses.likely:
        return tracker.guesses.likely.pop(0)
    answer = guesses.truth(tensor)
    tracker.guesses.note(_name(func), tracker.scene.module, answer)
    return answer


def changes(tracker: Tracker) -> list[tuple[Any, str, Any]]:
    """`tolist()` reads main memory in one go, where a fake tensor asks for number after number."""

    def listed(tensor: torch.Tensor) -> Any:
        lying = tensor if tensor.device.type == "cpu" else tensor.to("cpu")
        value = shadow.of(lying)
        if value is None:
            answer = guesses.truth(tensor)
            tracker.guesses.note("tolist", tracker.scene.module, answer)
        with torch._C._DisableTorchDispatch():
            return torch.full(lying.shape, answer).tolist() if value is None else value.tolist()

    return [(FakeTensor, "tolist", listed)]


def equal(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Are two tensors the same in every element?"""
    found = shadow.run(func, args, kwargs)
    if found is not shadow.UNKNOWN:
        return bool(found)
    tracker.guesses.note(_name(func), tracker.scene.module, False)
    return False


def taken(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """`nonzero`: the places of a mask that are taken, [count, dimensions]."""
    mask = args[0]
    found = shadow.run(func, args, kwargs)
    if found is not shadow.UNKNOWN:
        return tracker.like(found, mask.device)
    count = guesses.exactly(mask)
    if count is None:
        count = tracker.guesses.taken(mask)
        tracker.guesses.note(_name(func), tracker.scene.module, f"{count} of {mask.numel()}")
    if count == mask.numel():
        with torch._C._DisableTorchDispatch():
            everywhere = torch.ones(mask.shape, dtype=torch.bool).nonzero()
        return tracker.like(everywhere, mask.device)
    made: torch.Tensor = aten.empty.memory_format([count, mask.dim()], dtype=torch.int64, device=mask.device)
    return made


def selected(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """`masked_select`: as many elements as places are taken."""
    values, mask = args
    known = mask if shadow.is_plain(mask) else shadow.of(mask)
    shape = torch.broadcast_shapes(values.shape, mask.shape)
    if known is not None:
        with torch._C._DisableTorchDispatch():
            count = int(known.expand(shape).count_nonzero())
    else:
        count = tracker.guesses.taken(mask) * shape.numel() // max(1, mask.numel())
        tracker.guesses.note(_name(func), tracker.scene.module, f"{count} of {shape.numel()}")
    made: torch.Tensor = aten.empty.memory_format([count], dtype=values.dtype, device=values.device)
    return made


def of_values(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Operations that are only known where their values are."""
    found = shadow.run(func, args, kwargs)
    if found is shadow.UNKNOWN:
        return func(*args, **kwargs)
    device = next(shadow.tensors_in(args)).device
    if isinstance(found, torch.Tensor):
        return tracker.like(found, device)
    return tuple(tracker.like(one, device) for one in found)


def is_in(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`isin`: of tokens that nobody knows, none is the one looked for."""
    out = func(*args, **kwargs)
    found = shadow.run(func, args, kwargs)
    if found is shadow.UNKNOWN:
        tracker.guesses.note(_name(func), tracker.scene.module, guesses.NO_END_TOKEN)
        with torch._C._DisableTorchDispatch():
            found = torch.zeros(out.shape, dtype=torch.bool)
    shadow.give(out, found)
    return out


def unique(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`unique`: values that nobody knows are taken to be different from each other."""
    found = shadow.run(func, args, kwargs)
    if found is not shadow.UNKNOWN:
        return of_values(tracker, func, args, kwargs)
    values, count = args[0], args[0].numel()
    tracker.guesses.note(_name(func), tracker.scene.module, f"{count} of {count}")
    distinct = aten.empty.memory_format([count], dtype=values.dtype, device=values.device)
    places, counts = (
        aten.empty.memory_format(shape, dtype=torch.int64, device=values.device)
        for shape in (list(values.shape), [count])
    )
    return distinct, places, counts


def shuffled(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """`randperm`: one order is as likely as another, so it is the first."""
    out: torch.Tensor = func(*args, **kwargs)
    if shadow.is_small(out):
        with torch._C._DisableTorchDispatch():
            shadow.give(out, torch.arange(out.numel(), dtype=out.dtype, device="cpu"))
        tracker.guesses.note(_name(func), tracker.scene.module, "0, 1, 2, ...")
    return out


def packed(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`pack_padded_sequence`: rows of known lengths without what fills them up, and how many there are at each step."""
    rows, lengths, _batch_first = args
    known = lengths if shadow.is_plain(lengths) else shadow.of(lengths)
    if known is None:
        return func(*args, **kwargs)
    with torch._C._DisableTorchDispatch():
        steps = torch.arange(int(known.max()))
        sizes = (known.unsqueeze(0) > steps.unsqueeze(1)).sum(1)
        total = int(known.sum())
    made = aten.empty.memory_format([total, *rows.shape[2:]], dtype=rows.dtype, device=rows.device)
    return made, tracker.like(sizes, lengths.device)


def unpacked(_tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """The gradient of it: the shape of the rows as they were."""
    gradient, shape = args[:2]
    made: torch.Tensor = aten.zeros.default(shape, dtype=gradient.dtype, device=gradient.device)
    return made


def _name(func: Any) -> str:
    return str(func)


HANDLERS.update(
    {
        aten._local_scalar_dense.default: read,
        aten.equal.default: equal,
        aten.nonzero.default: taken,
        aten.masked_select.default: selected,
        aten._unique2.default: unique,
        aten.randperm.default: shuffled,
        aten.randperm.generator: shuffled,
        aten.unique_dim.default: of_values,
        aten.unique_consecutive.default: of_values,
        aten.repeat_interleave.Tensor: of_values,
        aten.bincount.default: of_values,
        aten.isin.Tensor_Tensor: is_in,
        aten.isin.Tensor_Scalar: is_in,
        aten._pack_padded_sequence.default: packed,
        aten._pack_padded_sequence_backward.default: unpacked,
    }
)
