"""Where a tensor was used twice, autograd adds the second gradient to the first: in place where nobody else holds that.

It never does so to a fake tensor, which is a subclass, so a trace would count one gradient too many. Sources:
torch/csrc/autograd/input_buffer.cpp (`accumulate`, `can_accumulate_inplace`).
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

ADD = torch.ops.aten.add.Tensor
ENGINE = _engine_run_backward.__code__
AROUND_MODES = frozenset({torch._compile.__file__, torch._dynamo.eval_frame.__file__})
"""PyTorch wraps what a mode does, so that it is not compiled."""
ALONE = 2
"""A storage's count where one tensor has it: that tensor, and the Python object that is asked."""


def added(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The sum: the first of both where autograd itself adds and would write there, else a new tensor."""
    if tracker.scene.in_backward() and not kwargs and not torch.is_grad_enabled() and _is_by_engine():
        held, new = args
        # Of the new one only autograd knows, so what it counts more of the other is held by the program, as by a hook.
        is_held = sys.getrefcount(held) > sys.getrefcount(new)
        if not is_held and _may_be_written(held, new):
            shadow.forget(held)
            return held
    return tracker.made(func, args, kwargs)


def _is_by_engine() -> bool:
    """Was the operation called by autograd itself, not by Python code that it runs? Asked above this room."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename in AROUND_MODES:
        frame = frame.f_back
    return frame is not None and frame.f_code is ENGINE


def _may_be_written(held: Any, new: Any) -> bool:
    if type(held) is not FakeTensor or type(new) is not FakeTensor:
        return False
    alike = held.shape == new.shape and held.dtype == new.dtype and held.fake_device == new.fake_device
    return (
        alike
        and held.layout is torch.strided
        and is_non_overlapping_and_dense_or_false(held)
        and torch._C._storage_Use_Count(held.untyped_storage()._cdata) == ALONE
    )


HANDLERS[ADD] = added
