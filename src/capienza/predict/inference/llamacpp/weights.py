"""Model buffers: every tensor in the buffer that its layer's device, its use and the overrides give it.

Legend: a buffer of a device is the sum of its tensors, each padded as `backend` says. Host weights stand in pinned
memory of the first device, in a mapped view of the file (from the first to the last host tensor, device tensors between
them included), or plainly in CPU memory; a repacked copy replaces the plain one, not the view.
A tied embedding stays with the host, and is loaded again as the output matrix of a device.
Sources: `load_tensors` (llama-model.cpp), `create_tensor` and `get_mapping_range` (llama-model-loader.cpp), tensor
layers and uses (llama-arch.cpp), all at 0c1e57098; `--n-cpu-moe` in common/arg.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from capienza.formats.matcher import Matcher
from capienza.formats.tensor import Tensor
from capienza.predict.inference.llamacpp.backend import (
    CPU,
    HOST,
    MAPPED,
    allocated_bytes,
    backend_of,
    host_buffer_name,
    padded,
)
from capienza.predict.inference.llamacpp.buffers import TENSORS, LlamaBuffer
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.placement import Placement
from capienza.predict.inference.llamacpp.repack import BUFFERS, repacked_bytes
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime
from capienza.units import Range

EMBEDDING = "token_embd.weight"
OUTPUT = "output.weight"
READ_BY_ROW = ("token_embd.", "position_embd.", "token_types.", "per_layer_token_embd.")
EXPERTS = re.compile(r"ffn_(?:up|down|gate|gate_up)_(?:ch|)exps")
_BLOCK = re.compile(r"blk\.(\d+)\.")


class Placed(msgspec.Struct, frozen=True):
    """One tensor in its buffer; `is_output_copy` marks the second copy of a tied embedding."""

    tensor: Tensor
    buffer: str
    bytes: int
    is_output_copy: bool = False


def placed_weights(model: LlamaModel, runtime: LlamaRuntime, placement: Placement) -> tuple[Placed, ...]:
    """Every tensor with the buffer that holds it. Raises `ExpressionError` for an override that is not understood."""
    overrides = [(_searcher(pattern), buffer) for pattern, buffer in runtime.override_tensor]

    def put(tensor: Tensor, device: str, *, multiplied: bool, is_copy: bool = False) -> Placed:
        wanted = _override(tensor.name, overrides, runtime)
        on = device if wanted is None else wanted
        if on != CPU and not on.startswith(CPU) and not on.endswith("_Host"):
            size = allocated_bytes(tensor.bytes, tensor.dtype, tensor.shape[-1] if tensor.shape else 1, backend_of(on))
            return Placed(tensor, on, size, is_copy)
        return _on_host(tensor, runtime, multiplied=multiplied, is_copy=is_copy)

    placed = [
        put(tensor, device, multiplied=tensor.name.endswith(".weight") and not tensor.name.startswith(READ_BY_ROW))
        for tensor, device in _with_devices(model, placement)
    ]
    table = {tensor.name: tensor for tensor in model.tensors}
    if OUTPUT not in table and EMBEDDING in table:
        copy = put(table[EMBEDDING], placement.output, multiplied=True, is_copy=True)
        original = next(one for one in placed if one.tensor.name == EMBEDDING)
        if copy.buffer != original.buffer:
            placed.append(copy)
    return tuple(placed)


def model_buffers(model: LlamaModel, placed: tuple[Placed, ...]) -> list[LlamaBuffer]:
    """The sizes that the engine prints after loading."""
    sizes: dict[str, int] = {}
    counts: dict[str, int] = {}
    for one in placed:
        sizes[one.buffer] = sizes.get(one.buffer, 0) + one.bytes
        counts[one.buffer] = counts.get(one.buffer, 0) + 1
    if MAPPED in sizes:
        sizes[MAPPED] = _mapped_span(model, {one.tensor.name for one in placed if one.buffer == MAPPED})
    is_exact = model.table_is_read and model.parts == 1
    return [
        LlamaBuffer(
            kind="model_buffer",
            device=device,
            amount=Range.exact(size) if is_exact else Range(0, size, size),
            status="exact" if is_exact else "estimated",
            formula=TENSORS(count=counts[device], total=size),
        )
        for device, size in sizes.items()
    ]


def _with_devices(model: LlamaModel, placement: Placement) -> Iterator[tuple[Tensor, str]]:
    """Every tensor with the device of its layer; rotary tables once for each device that has blocks."""
    output_norm = "token_embd_norm." if model.architecture.startswith("lfm2") else "output_norm."
    for tensor in model.tensors:
        match = _BLOCK.match(tensor.name)
        if match:
            block = int(match[1])
            yield tensor, placement.blocks[block] if block < len(placement.blocks) else CPU
        elif tensor.name.startswith("rope_"):
            for device in dict.fromkeys(placement.blocks):
                yield tensor, device
        elif tensor.name.startswith(("output", output_norm)):
            yield tensor, placement.output
        else:
            yield tensor, CPU


def _on_host(tensor: Tensor, runtime: LlamaRuntime, *, multiplied: bool, is_copy: bool) -> Placed:
    """A tensor in host memory: pinned, repacked, mapped or plain."""
    plain = MAPPED if runtime.use_mmap else CPU
    pinned = host_buffer_name(runtime.devices)
    if pinned != CPU:
        return Placed(tensor, plain if runtime.use_mmap else pinned, padded(tensor.bytes, HOST.alignment), is_copy)
    repacked = repacked_bytes(tensor, runtime.repack) if multiplied else None
    if repacked is not None:
        return Placed(tensor, BUFFERS[runtime.repack], padded(repacked, HOST.alignment), is_copy)
    return Placed(tensor, plain, padded(tensor.bytes, HOST.alignment), is_copy)


def _mapped_span(model: LlamaModel, names: set[str]) -> int:
    """Bytes from the first to the last of the named tensors in the file."""
    position, first, last = 0, None, 0
    for tensor in model.tensors:
        if tensor.name in names:
            first = position if first is None else first
            last = position + tensor.bytes
        position = padded(position + tensor.bytes, model.alignment)
    return last - (first or 0)


def _searcher(pattern: str) -> Matcher:
    """A matcher that finds the pattern anywhere in a name."""
    return Matcher((pattern, f".*({pattern})"))


def _override(name: str, overrides: list[tuple[Matcher, str]], runtime: LlamaRuntime) -> str | None:
    """The buffer that the first matching override names."""
    for matcher, buffer in overrides:
        if any(True for _ in matcher.ends(name)):
            return buffer
    match = _BLOCK.match(name) if runtime.n_cpu_moe else None
    if match and int(match[1]) < runtime.n_cpu_moe and EXPERTS.search(name):
        return CPU
    return None
