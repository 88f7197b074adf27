"""The kernels of SyncBatchNorm, for which fake tensors have no rule.

Statistics are kept for each channel, in 32 bits where the input has 16 (aten/src/ATen/native/cuda/Normalization.cu).
"""

from __future__ import annotations

from typing import Any

import torch

from capienza.trace.tracker import HANDLERS, Tracker

aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)


def _channels(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty([x.shape[1]], dtype=torch.float32 if x.dtype in HALVES else x.dtype)


def _two(_tracker: Tracker, _func: Any, args: tuple[Any, ...], _named: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    return _channels(args[0]), _channels(args[0])


def _alike(_tracker: Tracker, _func: Any, args: tuple[Any, ...], _named: dict[str, Any]) -> torch.Tensor:
    return torch.empty_like(args[0])


def _reduced(_tracker: Tracker, _func: Any, args: tuple[Any, ...], _named: dict[str, Any]) -> tuple[Any, ...]:
    """[grad, input, mean, invstd, weight, for the input?, for the weight?, for the bias?]: sums and gradients."""
    x, weight, (for_input, for_weight, for_bias) = args[1], args[4], args[5:8]
    sums = [_channels(x) if for_input else None for _ in range(2)]
    return (
        *sums,
        *(torch.empty_like(weight) if asked and weight is not None else None for asked in (for_weight, for_bias)),
    )


HANDLERS.update(
    {
        aten.batch_norm_stats.default: _two,
        aten.batch_norm_gather_stats_with_counts.default: _two,
        aten.batch_norm_elemt.default: _alike,
        aten.batch_norm_backward_reduce.default: _reduced,
        aten.batch_norm_backward_elemt.default: _alike,
    }
)
