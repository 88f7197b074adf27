"""What autograd itself writes in place, where nobody else holds the tensor. It never does so to a fake one.

A fake tensor is a subclass, and with subclasses autograd makes new tensors instead: a trace would count one gradient
too many. So it is where a tensor was used twice and the second gradient is added to the first, and where the gradient
of a choice (`gather`, `x[places]`, `topk`) is put among zeros. Sources: torch/csrc/autograd/input_buffer.cpp
(`accumulate`, `can_accumulate_inplace`), FunctionsManual.cpp (`index_backward`, `value_selecting_reduction_backward`,
`index_select`, `cummax`), native/TensorAdvancedIndexing.cpp (`gather_backward`).
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
import torch._compile
import torch._dynamo.eval_frame
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import _engine_run_backward

from capienza.trace import shadow
from capienza.trace.tracker import HANDLERS, Tracker

aten = torch.ops.aten
ADD, PUT = aten.add.Tensor, aten.index_put.default
AMONG_ZEROS = frozenset({aten.scatter_add.default, aten.scatter.src, aten.index_add.default, PUT})
WRITTEN_BY_AUTOGRAD = frozenset({ADD, *AMONG_ZEROS})
ENGINE = _engine_run_backward.__code__
AROUND_MODES = frozenset({torch._compile.__file__, torch._dynamo.eval_frame.__file__})
"""PyTorch wraps what a mode does, so that it is not compiled."""
ALONE = 2
"""A storage's count where one tensor has it: that tensor, and the Python object that is asked."""


def added(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The sum: the first of both where autograd itself adds and would write there, else a new tensor."""
    if not kwargs and _is_by_autograd(tracker) and _is_plain(args[0], args[1]):
        held, new = args
        # Of the new one only autograd knows, so what is counted more of the other is held by the program, as by a hook.
        is_held = sys.getrefcount(held) > sys.getrefcount(new)
        if not is_held and _is_alone(held):
            shadow.forget(held)
            return held
    return tracker.made(func, args, kwargs)


def put(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Gradients among zeros: those zeros where autograd itself made them. A formula that replaces is no such thing."""
    replaces = func is PUT and not (len(args) > 3 and args[3])
    by_autograd = not replaces and _is_by_autograd(tracker)
    if func is PUT:
        args = tracker.without_masks(args)
    if by_autograd and not kwargs and type(args[0]) is FakeTensor and _is_alone(args[0]):
        shadow.forget(args[0])
        return args[0]
    return tracker.made(func, args, kwargs)


def _is_by_autograd(tracker: Tracker) -> bool:
    """Did autograd call it, without a further graph, and not Python that it runs? Asked two calls below the mode."""
    if not tracker.scene.in_backward() or torch.is_grad_enabled():
        return False
    frame: FrameType | None = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename in AROUND_MODES:
        frame = frame.f_back
    return frame is not None and frame.f_code is ENGINE


def _is_plain(held: Any, new: Any) -> bool:
    if type(held) is not FakeTensor or type(new) is not FakeTensor:
        return False
    return held.shape == new.shape and held.dtype == new.dtype and held.fake_device == new.fake_device


def _is_alone(held: FakeTensor) -> bool:
    """Is there no other tensor in its storage, and is it dense?"""
    if held.layout is not torch.strided or not is_non_overlapping_and_dense_or_false(held):
        return False
    return bool(torch._C._storage_Use_Count(held.untyped_storage()._cdata) == ALONE)


HANDLERS[ADD] = added
HANDLERS.update(dict.fromkeys(AMONG_ZEROS, put))
