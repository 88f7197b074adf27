"""Recurrent layers on a card are one call of cuDNN each, where a build without CUDA goes cell by cell.

The calls of `torch.nn.LSTM`, `GRU` and `RNN` are sent to `_cudnn_rnn`, as aten/src/ATen/native/RNN.cpp and
cudnn/RNN.cpp do. What cuDNN reserves for the backward pass is listed as unknown (`kernels.UNKNOWN`). Weights are taken
to lie in one piece, as `flatten_parameters` leaves them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from capienza.trace import shadow
from capienza.trace.tracker import HANDLERS, Tracker

aten = torch.ops.aten

Change = tuple[Any, str, Any]
MODES = {"rnn_relu": (0, 1), "rnn_tanh": (1, 1), "lstm": (2, 4), "gru": (3, 3)}
"""cuDNN's number of each kind, and its gates."""


class _Asked(NamedTuple):
    """What the layers ask for; packed rows have batch sizes."""

    rows: torch.Tensor
    batch_sizes: list[int]
    state: Any
    weights: list[torch.Tensor]
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool


def changes() -> list[Change]:
    """The functions that the layers call."""
    return [
        *((torch._VF, name, _on_cudnn(name, getattr(torch._VF, name))) for name in MODES),
        # Without cuDNN it warns, and answers no.
        (torch.backends.cudnn, "is_acceptable", lambda _tensor: False),
        # It looks at the batch sizes through a pointer.
        (torch._VF, "_pad_packed_sequence", _padding(torch._VF._pad_packed_sequence)),
    ]


def _on_cudnn(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    mode, gates = MODES[name]

    def run(*args: Any) -> Any:
        asked = _asked(args)
        rows = args[0]
        if asked is None or not isinstance(rows, FakeTensor) or rows.fake_device.type != "cuda":
            return real(*args)
        hidden = asked.weights[0].shape[0] // gates
        out = asked.weights[1].shape[1]
        state, cell = asked.state if name == "lstm" else (asked.state, None)
        found = aten._cudnn_rnn.default(
            rows, asked.weights, 4 if asked.has_biases else 2, asked.weights[0].detach(), state, cell, mode, hidden,
            out if out != hidden else 0, asked.layers, asked.batch_first, asked.dropout, asked.train,
            asked.bidirectional, asked.batch_sizes, None,
        )  # fmt: skip
        return found[:3] if name == "lstm" else found[:2]

    return run


def _asked(args: tuple[Any, ...]) -> _Asked | None:
    """Two forms: rows, state, weights, ..., batch first; or packed rows, batch sizes, state, weights, ..."""
    if isinstance(args[3], bool):
        return _Asked(args[0], [], *args[1:])
    sizes = _numbers(args[1])
    return None if sizes is None else _Asked._make([args[0], sizes, *args[2:], False])


def _numbers(tensor: torch.Tensor) -> list[int] | None:
    known = tensor if shadow.is_plain(tensor) else shadow.of(tensor)
    if known is None:
        return None
    with torch._C._DisableTorchDispatch():
        numbers: list[int] = known.tolist()
    return numbers


def _padding(real: Callable[..., Any]) -> Callable[..., Any]:
    """As `_pad_packed_sequence` of PackedSequence.cpp: one tensor, and a copy for every run of equal batch sizes."""

    def pad(rows: Any, batch_sizes: Any, batch_first: bool, value: float, total_length: int) -> Any:
        sizes = _numbers(batch_sizes)
        if sizes is None or not isinstance(rows, FakeTensor):
            return real(rows, batch_sizes, batch_first, value, total_length)
        steps = max(len(sizes), total_length)
        padded = rows.new_full((steps, sizes[0], *rows.shape[1:]), value)
        step = row = 0
        for size, run in itertools.groupby(sizes):
            count = len(list(run))
            part = rows[row : row + count * size].view(count, size, *rows.shape[1:])
            padded[step : step + count, :size].copy_(part)
            step, row = step + count, row + count * size
        lengths = torch.tensor([sum(size > place for size in sizes) for place in range(sizes[0])])
        return padded.transpose(0, 1) if batch_first else padded, lengths

    return pad


def _backward(tracker: Tracker, func: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
    """Gradients of rows and states; those of the weights are views of one buffer (cudnn/RNN.cpp)."""
    rows, weights, state, cell, mask = args[0], args[1], args[4], args[5], args[-1]
    sizes = [one.numel() for one in weights]
    buffer = aten.zeros.default([sum(sizes) if mask[3] else 0], dtype=rows.dtype, device=rows.device)
    tracker.keep(buffer, func)
    pieces = zip(aten.split_with_sizes.default(buffer, sizes), weights, strict=True) if mask[3] else ()
    return (
        aten.empty_like.default(rows),
        aten.empty_like.default(state),
        None if cell is None else aten.empty_like.default(cell),
        [aten.view.default(piece, list(weight.shape)) for piece, weight in pieces],
    )


HANDLERS[aten._cudnn_rnn_backward.default] = _backward
