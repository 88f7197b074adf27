"""PyTorch's caching allocator on each GPU: what tensors held at most, and what it held of the card for them.

`allocated` and `reserved` are different counters and are never added. Both are kept by the allocator itself as the
program asks for memory, so neither needs the GPU to be waited for. PyTorch is looked for, never imported: a process
that did not import it has nothing there.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from capienza.canon import digest_bytes
from capienza.measure.meter import Meter

SOURCE = "torch.cuda.memory_stats: {key}.all.peak, reset at each phase"
KEYS = {"allocated": "allocated_bytes", "reserved": "reserved_bytes"}


def take() -> dict[Meter, int]:
    """The peaks since the last call of every GPU that this process has used; they begin anew."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return {}
    found: dict[Meter, int] = {}
    for index in range(cuda.device_count()):
        stats = cuda.memory_stats_as_nested_dict(index)
        peaks = {name: stats[key]["all"]["peak"] for name, key in KEYS.items() if key in stats}
        if not peaks.get("reserved"):
            continue
        found |= {_meter(name, index): value for name, value in peaks.items()}
        cuda.reset_peak_memory_stats(index)
    return found


@functools.cache
def _meter(name: str, index: int) -> Meter:
    properties = sys.modules["torch"].cuda.get_device_properties(index)
    return Meter(name, f"gpu:{index}", SOURCE.format(key=KEYS[name]), _digest(getattr(properties, "uuid", None)))


def _digest(uuid: Any) -> str | None:
    """Which card it is, without naming it: the digest of its UUID as the driver writes it."""
    text = str(uuid or "").removeprefix("GPU-")
    return digest_bytes(f"GPU-{text}".encode()) if text else None
