"""Fused optimizer steps that have no fake kernel: they write to their arguments and take nothing."""

from __future__ import annotations

from typing import Any

import torch

from capienza.trace.tracker import HANDLERS, Tracker

aten = torch.ops.aten
NAMES = ("_fused_sgd_", "_fused_adagrad_", "_fused_adam_", "_fused_adamw_")


def update(tracker: Tracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Nothing is known any more of what was written."""
    tracker.written(func, args, kwargs)


HANDLERS.update(
    {
        getattr(packet, overload): update
        for packet in (getattr(aten, name) for name in NAMES)
        for overload in packet.overloads()
        if not overload.endswith("out")
    }
)
