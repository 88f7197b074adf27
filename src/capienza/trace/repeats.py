"""Operations that were met before: their result is made from what it was the first time.

A model's layers ask for the same operations again and again. `FakeTensorMode` keeps results too, but describes every
argument in full to find them; here an argument is told by its shape, strides, offset, type and device. Kept is what an
operation did to fake tensors that have values of no consequence:

- it made new tensors, each with a storage of its own that it fills;
- or its result lies in the storage of its first argument (a view);
- or it wrote into its first argument and gave that back.

Whatever else it did, or does by its declaration, goes to `FakeTensorMode` each time: real tensors among the arguments,
results whose size depends on values, changes of sizes or storages. Sources: torch/_subclasses/fake_tensor.py
(`_validate_cache_key`, `_output_from_cache_entry`), torch/_ops.py, the tags in aten/src/ATen/native/tags.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from capienza.trace.shadow import tensors_in

PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})
TAGS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view})
NAMESPACES = frozenset({"aten", "prims"})
MOVES = ("resize", "set_", "as_strided_", "lift", "record_stream", "_to_sparse", "to_mkldnn")
"""Beginnings of names of operations that give a tensor another storage or size, or other than a fake one."""
MOST_KEPT = 200_000
Make = Callable[[tuple[Any, ...]], Any]


class UntoldError(Exception):
    """An argument by which an operation cannot be told."""


class Repeats:
    """What the operations of one trace did."""

    def __init__(self) -> None:
        self.made: dict[tuple[Any, ...], Make | None] = {}
        self.allowed: dict[Any, bool] = {}

    def run(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The result of an operation on fake tensors."""
        allowed = self.allowed.get(func)
        if allowed is None:
            allowed = self.allowed[func] = _is_allowed(func)
        if not allowed:
            return func(*args, **named)
        told: list[Any] = [func, torch.get_default_dtype()]
        try:
            _tell(args, told)
            if named:
                told.extend(named)
                _tell(named.values(), told)
        except UntoldError:
            return func(*args, **named)
        key = tuple(told)
        try:
            make = self.made[key]
        except KeyError:
            return self._first(key, func, args, named)
        return func(*args, **named) if make is None else make(args)

    def _first(self, key: tuple[Any, ...], func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        before = _look(args[0]) if func._schema.is_mutable else None
        out = func(*args, **named)
        if len(self.made) < MOST_KEPT:
            if before is None:
                self.made[key] = _remake(out, args)
            else:
                self.made[key] = _given_back(out, args[0], before)
        return out


def _is_allowed(func: Any) -> bool:
    """Is it, by its declaration, one of those that are kept?"""
    schema = func._schema
    if func.namespace not in NAMESPACES or not TAGS.isdisjoint(func.tags):
        return False
    if schema.name.partition("::")[2].startswith(MOVES):
        return False
    written = [place for place, one in enumerate(schema.arguments) if one.alias_info and one.alias_info.is_write]
    return written in ([], [0])


def _tell(values: Iterable[Any], told: list[Any]) -> None:
    """Add what tells arguments apart. Raises `UntoldError` for one that nothing here tells."""
    for value in values:
        kind = type(value)
        if kind is FakeTensor or isinstance(value, FakeTensor):
            if value.layout is not torch.strided or value.dtype.is_complex:
                raise UntoldError
            told += (value.shape, value.stride(), value.storage_offset(), value.dtype, value.fake_device)
        elif kind in PLAIN:
            told += (kind, value)
        elif kind is list or kind is tuple or kind is torch.Size:
            told += (kind, len(value))
            _tell(value, told)
        else:
            raise UntoldError


def _look(target: Any) -> list[tuple[Any, ...]]:
    """How tensors look that are about to be written to."""
    tensors = target if isinstance(target, list | tuple) else [target]
    return [(one.shape, one.stride(), one.untyped_storage()._cdata, one.untyped_storage().nbytes()) for one in tensors]


def _given_back(out: Any, target: Any, before: list[tuple[Any, ...]]) -> Make | None:
    if _look(target) != before:
        return None
    if out is None:
        return lambda _args: None
    return (lambda args: args[0]) if out is target else None


def _remake(out: Any, args: tuple[Any, ...]) -> Make | None:
    """What makes such a result again; None where it is not known to be new, or a view."""
    if isinstance(out, list | tuple):
        parts = [_part(one, args) for one in out]
        storages = [one.untyped_storage()._cdata for one in out if isinstance(one, torch.Tensor)]
        if None in parts or (len(set(storages)) < len(storages) and _base(out[0], args) is None):
            return None
        kind, makers = type(out), [one for one in parts if one is not None]
        return lambda args: kind([make(args) for make in makers])
    return _part(out, args)


def _part(one: Any, args: tuple[Any, ...]) -> Make | None:
    if one is None or type(one) in (int, float, bool):
        return lambda _args: one
    if type(one) is not FakeTensor or one.layout is not torch.strided or one.requires_grad or one.dtype.is_complex:
        return None
    if _base(one, args) is not None:
        return None if one is args[0] else _view(one)
    cell = one.untyped_storage()._cdata
    is_new = all(value.untyped_storage()._cdata != cell for value in tensors_in(args))
    return _new(one) if is_new else None


def _base(one: Any, args: tuple[Any, ...]) -> FakeTensor | None:
    """The first argument, if a result lies in its storage."""
    first = args[0] if args else None
    if isinstance(one, FakeTensor) and isinstance(first, FakeTensor):
        return first if first.untyped_storage()._cdata == one.untyped_storage()._cdata else None
    return None


def _new(one: FakeTensor) -> Make | None:
    shape, strides, dtype, device, mode = one.shape, one.stride(), one.dtype, one.fake_device, one.fake_mode
    with torch._C._DisableTorchDispatch():
        again = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    if one.storage_offset() or again.untyped_storage().nbytes() != one.untyped_storage().nbytes():
        return None

    def make(_args: tuple[Any, ...]) -> FakeTensor:
        with torch._C._DisableTorchDispatch():
            element = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
        return FakeTensor(mode, element, device)

    return make


def _view(one: FakeTensor) -> Make:
    shape, strides, offset, dtype = one.shape, one.stride(), one.storage_offset(), one.dtype
    device, mode = one.fake_device, one.fake_mode

    def make(args: tuple[Any, ...]) -> FakeTensor:
        storage = args[0].untyped_storage()
        with torch._C._DisableTorchDispatch():
            element = torch.empty((0,), dtype=dtype, device="meta").set_(storage, offset, shape, strides)
        return FakeTensor(mode, element, device)

    return make
