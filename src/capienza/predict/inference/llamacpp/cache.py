"""KV cache and recurrent state: every layer's tensors on its device.

Legend: C cells of one stream, S streams, Q sequences, W window, U ubatch, B batch, row(t, w) bytes of w elements of
type t. A layer with attention keeps S x C x (row(k, heads x key) + row(v, heads x value)); a latent one
S x C x row(k, latent) and no V. A windowed layer has pad(min(C, W x (Q if unified else 1) + U)) cells instead of C.
Without flash attention V is stored transposed, and as wide everywhere as the widest layer.
A recurrent layer keeps fp32 states, Q x (1 + snapshots) rows of each. Every tensor is padded as its device does.
Sources: llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp of llama.cpp at 0c1e57098.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from capienza.architecture.model import Attention, Layer
from capienza.predict.inference.llamacpp.backend import CPU, allocated_bytes, backend_of, host_buffer_name, row_bytes
from capienza.predict.inference.llamacpp.backend import padded as pad
from capienza.predict.inference.llamacpp.buffers import SUM, BufferKind, LlamaBuffer
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.placement import Placement
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime, Sizes
from capienza.units import Range


class CacheTensor(msgspec.Struct, frozen=True):
    """One tensor of `rows` rows with `width` elements of the format `kind`; a device completes rows of `unit`."""

    kind: str
    width: int
    rows: int
    unit: int

    def bytes_on(self, device: str) -> int:
        """What it takes on a device."""
        size = row_bytes(self.kind, self.width) * self.rows
        return allocated_bytes(size, self.kind, self.unit, backend_of(device))


def window_cells(window: int, runtime: LlamaRuntime, sizes: Sizes) -> int:
    """Cells of one stream in a windowed layer."""
    era = runtime.era
    if runtime.swa_full or era.windows == "none":
        return sizes.cells
    sequences = 1 if era.has_streams and not runtime.kv_unified else runtime.n_seq_max
    more = sizes.ubatch if era.windows == "ubatch" else sizes.batch
    return pad(min(sizes.cells, window * sequences + more), era.window_padding)


def flash_attention(runtime: LlamaRuntime) -> bool:
    """Whether the cache is made for flash attention."""
    if runtime.flash_attn == "auto":
        return not runtime.era.is_fork
    return runtime.flash_attn == "on"


def layer_cells(attention: Attention, runtime: LlamaRuntime, sizes: Sizes) -> int:
    """Cells of one stream in one layer."""
    return sizes.cells if attention.window is None else window_cells(attention.window, runtime, sizes)


def kv_tensors(layer: Layer, runtime: LlamaRuntime, sizes: Sizes, widest_value: int) -> Iterator[CacheTensor]:
    """K and V of one layer; nothing where it has no cache of its own."""
    attention = layer.attention
    if attention is None or attention.shares_cache_of is not None:
        return
    rows = layer_cells(attention, runtime, sizes) * sizes.streams
    has_rows = runtime.era.key_rows == "layer"
    if attention.kind == "latent":
        width = attention.latent_width
        yield CacheTensor(runtime.cache_type_k, width, rows, width)
        if runtime.mla == 1:
            width = attention.value_head_dim
            yield CacheTensor(runtime.cache_type_k, width, rows, width if has_rows else 0)
        return
    heads = attention.num_key_value_heads
    width = heads * attention.key_head_dim
    units = {"layer": width, "head": attention.key_head_dim, "none": 0}
    yield CacheTensor(runtime.cache_type_k, width, rows, units[runtime.era.key_rows])
    width = heads * attention.value_head_dim if flash_attention(runtime) else widest_value
    yield CacheTensor(runtime.cache_type_v, width, rows, width if has_rows else 0)


def state_tensors(layer: Layer, runtime: LlamaRuntime) -> Iterator[CacheTensor]:
    """The states of one layer."""
    rows = max(1, runtime.n_seq_max) * (1 + runtime.snapshots)
    for part in layer.state.parts if layer.state else ():
        yield CacheTensor("fp32", part.elements, rows, 0)


def widest_value(model: LlamaModel) -> int:
    """Elements of V for one token in the widest layer."""
    return max(
        (
            layer.attention.num_key_value_heads * layer.attention.value_head_dim
            for layer in model.layers
            if layer.attention
        ),
        default=0,
    )


def cache_device(layer: Layer, runtime: LlamaRuntime, placement: Placement) -> str:
    """Where a layer's cache stands."""
    if runtime.kv_offload:
        device = placement.blocks[layer.index]
        if device != CPU:
            return device
    return host_buffer_name(runtime.devices) if runtime.era.is_fork else CPU


def cache_buffers(model: LlamaModel, runtime: LlamaRuntime, placement: Placement, sizes: Sizes) -> list[LlamaBuffer]:
    """KV and state buffers of all devices."""
    found: dict[tuple[BufferKind, str], list[int]] = {}
    widest = widest_value(model)
    for layer in model.layers:
        device = cache_device(layer, runtime, placement)
        for kind, tensors in (
            ("kv_buffer", kv_tensors(layer, runtime, sizes, widest)),
            ("rs_buffer", state_tensors(layer, runtime)),
        ):
            amounts = [tensor.bytes_on(device) for tensor in tensors]
            if amounts:
                found.setdefault((kind, device), []).append(sum(amounts))  # type: ignore[arg-type]
    return [
        LlamaBuffer(
            kind=kind,
            device=device,
            amount=Range.exact(sum(amounts)),
            status="exact",
            formula=SUM(sum=_shown(amounts), total=sum(amounts)),
        )
        for (kind, device), amounts in found.items()
    ]


def _shown(amounts: list[int]) -> str:
    """Equal layers together: "16 x 100 + 4 x 25"."""
    counts: dict[int, int] = {}
    for amount in amounts:
        counts[amount] = counts.get(amount, 0) + 1
    return " + ".join(f"{count} x {amount}" for amount, count in counts.items())
