"""Which block of a model stands on which device.

Legend: N blocks of the file plus one, the output layer; g of them offloaded, the last ones; s_d the cumulated share of
device d. Offloaded layer i of g goes to the first device with s_d > i / g; the input embedding never leaves the host.
Single precision as in the engine: at a tie it decides the device.
Source: `llama_model_base::load_tensors` (llama-model.cpp at 0c1e57098).
"""

from __future__ import annotations

import struct
from itertools import accumulate

import msgspec

from capienza.predict.inference.llamacpp.backend import CPU
from capienza.predict.inference.llamacpp.runtime import ALL_LAYERS, LlamaRuntime

_SINGLE = struct.Struct("<f")


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The device of every block and of the output layer, and how many layers are offloaded."""

    blocks: tuple[str, ...]
    output: str
    offloaded: int

    @property
    def is_whole(self) -> bool:
        """True when no layer stays on the host."""
        return self.offloaded > len(self.blocks)


def place(blocks: int, runtime: LlamaRuntime) -> Placement:
    """Where the blocks of a model go."""
    layers, devices = blocks + 1, runtime.used_devices
    asked = layers if runtime.n_gpu_layers == ALL_LAYERS else runtime.n_gpu_layers
    offloaded = min(asked, layers) if devices else 0
    shares = _shares(runtime, len(devices))
    start = layers - offloaded
    where = tuple(
        CPU if layer < start else devices[_device(shares, _single((layer - start) / offloaded))]
        for layer in range(layers)
    )
    return Placement(blocks=where[:-1], output=where[-1], offloaded=offloaded)


def _single(value: float) -> float:
    """The nearest single-precision number."""
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0])


def _shares(runtime: LlamaRuntime, count: int) -> list[float]:
    """Cumulated shares of the devices, the last one 1."""
    stated = (runtime.tensor_split or ())[:count]
    weights = list((any(stated) and stated) or runtime.free_bytes or [1] * count)[:count]
    weights += [0] * (count - len(weights))
    sums = list(accumulate((_single(weight) for weight in weights), lambda one, other: _single(one + other)))
    return [_single(total / sums[-1]) for total in sums] if sums else []


def _device(shares: list[float], position: float) -> int:
    """The first device whose cumulated share lies above the position; the last one otherwise."""
    return next((index for index, share in enumerate(shares) if share > position), len(shares) - 1)
