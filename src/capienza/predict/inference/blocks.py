"""What loaded weights take in PyTorch's caching allocator: more than their bytes, by the ends of blocks and segments.

Legend: a segment is what the driver gives, a block a part of it that one tensor takes.
    tensor <= 1 MiB         segments of 2 MiB, sizes rounded up to 512 B, a block is always split
    1 MiB < tensor < 10 MiB segments of 20 MiB
    tensor >= 10 MiB        a segment of its own, rounded up to 2 MiB
    above 1 MiB a block is split only when more than 1 MiB would be left
"Allocated" counts whole blocks, "reserved" whole segments; a freed end is taken by the smallest tensor that fits.
Engines join query, key and value, and gate and up, before they load: the joined tensors are what is rounded.
Source: `c10/cuda/CUDACachingAllocator.cpp` of PyTorch 2.x. Checked on logged weights: 7.5551 GiB for Qwen3-4B (tensors
7.502, logged 7.5552), 7.1216 for Qwen2-7B on two GPUs (7.101, 7.1217), 0.2389 for OPT-125M (0.2333, 0.2389); and what
SGLang reads off the device on four GPUs, 7.07 for Qwen3-14B (6.89, 7.08) and 15.51 for QwQ-32B (15.29, 15.54).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

import msgspec

from capienza.architecture.model import Parameter
from capienza.predict.inference.serving import Serving
from capienza.predict.placement import shares_of
from capienza.units import MIB

SMALL_BYTES = MIB
LARGE_BYTES = 10 * MIB
SMALL_SEGMENT_BYTES = 2 * MIB
MIDDLE_SEGMENT_BYTES = 20 * MIB
ROUNDING_BYTES = 512
JOINED = {
    "q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up",
    "w1": "gate_up", "w2": "gate_up", "q_a_proj": "qkv_a", "kv_a_proj_with_mqa": "qkv_a",
}  # fmt: skip


class Held(msgspec.Struct, frozen=True):
    """Bytes as PyTorch counts them."""

    allocated_bytes: int = 0
    reserved_bytes: int = 0


class HeldPart(msgspec.Struct, frozen=True):
    """One tensor of a parameter; `joined` is the name within the block of what it is loaded into."""

    joined: str
    bytes: int


Parts = tuple[Parameter, tuple[HeldPart, ...]]


def held_on_ranks(serving: Serving, held: list[Parts], stages: list[range], *, joins: bool) -> Iterator[Held]:
    """The blocks of one rank of each stage; the layers of a stage are given."""
    share = shares_of(serving.architecture, serving.split)
    for stage, layers in enumerate(stages):
        sizes: dict[tuple[object, ...], int] = {}
        for parameter, parts in held:
            if parameter.layer not in layers and (parameter.layer is not None or not _is_at(parameter, stage, stages)):
                continue
            for part in parts:
                key = (parameter.layer, part.joined) if joins else (parameter.name, part.joined)
                size = share(parameter, part.bytes)
                sizes[key] = sizes.get(key, 0) + size
        yield take(sizes.values())


def joined_name(name: str) -> str:
    """The tensor that a parameter is loaded into."""
    return ".".join(JOINED.get(part, part) for part in name.split("."))


def take(sizes: Iterable[int]) -> Held:
    """Place tensors of these sizes one after the other."""
    small, large = _Pool(split_from=ROUNDING_BYTES), _Pool(split_from=SMALL_BYTES + 1)
    for size in sizes:
        rounded = max(ROUNDING_BYTES, -(-size // ROUNDING_BYTES) * ROUNDING_BYTES)
        if rounded <= SMALL_BYTES:
            small.take(rounded, SMALL_SEGMENT_BYTES)
        elif rounded < LARGE_BYTES:
            large.take(rounded, MIDDLE_SEGMENT_BYTES)
        else:
            large.take(rounded, -(-rounded // SMALL_SEGMENT_BYTES) * SMALL_SEGMENT_BYTES)
    return Held(small.allocated + large.allocated, small.reserved + large.reserved)


class _Pool:
    """Free blocks of one kind, sorted by size."""

    def __init__(self, split_from: int) -> None:
        self.split_from = split_from
        self.free: list[int] = []
        self.allocated = self.reserved = 0

    def take(self, size: int, segment: int) -> None:
        place = bisect.bisect_left(self.free, size)
        if place < len(self.free):
            block = self.free.pop(place)
        else:
            block = segment
            self.reserved += segment
        left = block - size
        if left >= self.split_from:
            bisect.insort(self.free, left)
            block = size
        self.allocated += block


def _is_at(parameter: Parameter, stage: int, stages: list[range]) -> bool:
    """Does this stage hold what lies outside the layers?"""
    is_first = parameter.role in ("embedding", "position", "vision")
    return stage == (0 if is_first else len(stages) - 1)
