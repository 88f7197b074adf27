"""Libraries' own kinds of parameters, made from fake tensors.

A library's `Parameter` subclass gets its data through `Tensor._make_subclass`, which refuses fake data: its object has
a Python object already. Here the fake tensor becomes an instance of a class that is both, so that the library's own
methods and questions (`isinstance`, the name of the class, `to`, `.data =`) work as on real data.

A copy in depth of a fake tensor would copy what is kept beside it too, and that as a tensor on the CPU: it is cloned.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from capienza.trace.swap import swapped

OURS = "_capienza_"
_kinds: dict[type, type] = {}


@contextlib.contextmanager
def made_from_fakes() -> Iterator[None]:
    """Inside, a subclass of Parameter may be made from a fake tensor."""
    real = torch.Tensor._make_subclass

    def make(cls: type, data: torch.Tensor, requires_grad: bool = False, *more: Any, **named: Any) -> torch.Tensor:
        if not isinstance(data, FakeTensor) or cls in (torch.Tensor, torch.nn.Parameter):
            return real(cls, data, requires_grad, *more, **named)
        made = FakeTensor.detach(data).requires_grad_(requires_grad)
        made._is_param = True
        made.__class__ = _kind(cls)
        return made

    with swapped(torch.Tensor, "_make_subclass", staticmethod(make)), swapped(FakeTensor, "__deepcopy__", _deepcopy):
        yield


def _kind(cls: type) -> type:
    """The class of fake tensors that are also of that class."""
    kind = _kinds.get(cls)
    if kind is None:
        own = {"data": property(_data, _set_data), "detach": _detach, "__new__": _new(cls)}
        if "__deepcopy__" in vars(cls):
            own["__deepcopy__"] = vars(cls)["__deepcopy__"]
        kind = _kinds[cls] = type(cls)(cls.__name__, (FakeTensor, cls), own)
    return kind


def _new(cls: type) -> Callable[..., Any]:
    """A copy is begun as `type(self).__new__(type(self))`, with the arguments of the library's class."""
    return lambda _kind, *args, **named: cls.__new__(cls, *args, **named)


def _data(tensor: FakeTensor) -> torch.Tensor:
    data: torch.Tensor = torch.Tensor.data.__get__(tensor)  # type: ignore[attr-defined]
    return data


def _set_data(tensor: FakeTensor, value: FakeTensor) -> None:
    torch.Tensor.data.__set__(tensor, value)  # type: ignore[attr-defined]
    tensor.fake_device = value.fake_device


def _detach(tensor: FakeTensor) -> torch.Tensor:
    """`Parameter(tensor)` asks that what `detach` gives is of the same class."""
    made = torch.Tensor.detach(tensor)
    made.__class__ = type(tensor)
    return made


def _deepcopy(tensor: FakeTensor, memo: dict[int, Any]) -> torch.Tensor:
    if id(tensor) in memo:
        known: torch.Tensor = memo[id(tensor)]
        return known
    if not tensor.is_leaf:
        return torch.Tensor.__deepcopy__(tensor, memo)  # type: ignore[no-any-return]
    made = memo[id(tensor)] = torch.Tensor.detach(tensor).clone().requires_grad_(tensor.requires_grad)
    for name, value in vars(tensor).items():
        if name not in vars(made) and not name.startswith(OURS):
            setattr(made, name, copy.deepcopy(value, memo))
    if tensor.grad is not None:
        made.grad = copy.deepcopy(tensor.grad, memo)
    return made
