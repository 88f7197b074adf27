"""What torch.distributed asks of the accelerator before it works on `cuda`."""

from __future__ import annotations

from typing import Any

import torch
from torch.cuda import nccl

from capienza.trace.streams import Place

NCCL = (2, 27, 0)
"""What is told of the library that is not there."""


def changes(place: Place, on_node: int) -> list[tuple[Any, str, Any]]:
    """A node with so many GPUs, which `torch.accelerator` finds too."""
    accelerator, cuda = torch.accelerator, torch.cuda
    device = torch.device("cuda")
    return [
        (nccl, "version", lambda: NCCL),
        (torch._C, "_get_accelerator", lambda *_args: device),
        (torch._C, "_accelerator_exchangeDevice", place.choose),
        (torch._C, "_accelerator_maybeExchangeDevice", place.choose),
        (accelerator, "current_accelerator", lambda *_args, **_kwargs: device),
        (accelerator, "is_available", lambda: True),
        (accelerator, "device_count", lambda: on_node),
        (accelerator, "current_device_index", lambda: place.device),
        (accelerator, "set_device_index", place.choose),
        (accelerator, "current_stream", cuda.current_stream),
        (accelerator, "set_stream", cuda.set_stream),
        (accelerator, "synchronize", lambda *_args: None),
        (torch, "Stream", cuda.Stream),
        (torch, "Event", cuda.Event),
        (cuda, "device_count", lambda: on_node),
        (cuda, "is_initialized", lambda: place.is_chosen),
    ]
