"""Weights that one rank keeps resident, as the engines load them.

Legend: M positions of the rotary table, d rotary elements of one head; r rank and s slots of LoRA adapters.
    tensors of the rank      exact, from the shapes and the format (`predict.placement`)
    rotary table             M * d * 2 B in the model's format, one for each kind of attention
    adapter slots            s * r * (in + out) * bytes, for every linear module of the decoder's blocks, cut like it
    unlisted                 parts of the model that the layers do not list (a vision side), whole on every rank
    ends of blocks           what PyTorch's allocator counts beside the tensors (`blocks`); none where it is not asked
Source: the loaded modules of vLLM 0.11.2; the tables explain 14.9595 against 14.9888 GiB for Llama 3 and 3.1 8B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from capienza.architecture.model import Architecture, Attention, Parameter
from capienza.formats.blocks import tensor_bytes
from capienza.formats.layout import DECODER_ROLES
from capienza.formats.scheme import stored
from capienza.predict.inference.blocks import HeldPart, held_on_ranks, joined_name
from capienza.predict.inference.serving import Serving
from capienza.predict.placement import RankWeights, check_split, rank_weights, shares_of

LATENT_ROTARY_WIDTH = 64
Padding = Callable[[Serving, Parameter, int], int]


def unpadded(_serving: Serving, _parameter: Parameter, size_bytes: int) -> int:
    """Kernels that take the tensors as they are."""
    return size_bytes


class ResidentWeights(msgspec.Struct, frozen=True, kw_only=True):
    """One stage's rank: `tensor_bytes` are exact, the rest follows the engine's habits."""

    stage: int
    layers: range
    tensor_bytes: int
    table_bytes: int
    adapter_bytes: int
    unlisted_bytes: int
    block_bytes: int = 0
    segment_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Everything that is resident once the model is loaded, as PyTorch counts allocated bytes."""
        return self.tensor_bytes + self.table_bytes + self.adapter_bytes + self.unlisted_bytes + self.block_bytes

    @property
    def device_bytes(self) -> int:
        """The same as the device counts it: whole segments."""
        return self.total_bytes - self.block_bytes + self.segment_bytes


def resident_weights(
    serving: Serving, padded: Padding = unpadded, *, joins: bool = True
) -> tuple[ResidentWeights, ...]:
    """One entry for each pipeline stage; `padded` is what the engine's kernels make of a parameter's bytes.

    `joins` tells whether query, key and value, and gate and up, are loaded into one tensor each.
    Raises `InputError` for a split or a format that the model cannot take.
    """
    architecture = serving.architecture
    check_split(architecture, serving.split)
    parts = [
        (parameter, tuple(_padded_part(serving, parameter, part, padded) for part in held))
        for parameter, held in held_parts(serving)
    ]
    held = ((parameter, sum(part.bytes for part in tensors)) for parameter, tensors in parts)
    ranks: tuple[RankWeights, ...] = rank_weights(architecture, held, serving.split)
    blocks = tuple(held_on_ranks(serving, parts, [rank.layers for rank in ranks], joins=joins))
    last = len(ranks) - 1
    return tuple(
        ResidentWeights(
            stage=rank.stage,
            layers=rank.layers,
            tensor_bytes=rank.total_bytes,
            table_bytes=_table_bytes(architecture, serving.dtype),
            adapter_bytes=_adapter_bytes(serving, rank.layers),
            unlisted_bytes=serving.unlisted_bytes if rank.stage in (0, last) else 0,
            block_bytes=max(0, blocks[rank.stage].allocated_bytes - rank.total_bytes),
            segment_bytes=max(0, blocks[rank.stage].reserved_bytes - rank.total_bytes),
        )
        for rank in ranks
    )


def held_bytes(serving: Serving) -> Iterator[tuple[Parameter, int]]:
    """Every parameter and buffer with the bytes that hold it."""
    for parameter, parts in held_parts(serving):
        yield parameter, sum(part.bytes for part in parts)


def held_parts(serving: Serving) -> Iterator[tuple[Parameter, tuple[HeldPart, ...]]]:
    """Every parameter and buffer with the tensors that hold it; equal shapes are looked at once."""
    known: dict[tuple[object, ...], tuple[HeldPart, ...]] = {}
    for parameter in (*serving.architecture.parameters, *serving.architecture.buffers):
        key = (_without_index(parameter), parameter.shape)
        if key not in known or (serving.scheme is not None and serving.scheme.rules):
            tensors = stored(
                parameter.name, parameter.shape, parameter.role, serving.scheme, serving.dtype,
                transposed=parameter.transposed,
            )  # fmt: skip
            known[key] = tuple(
                HeldPart(joined_name(_inner(tensor.name, parameter)), tensor.bytes) for tensor in tensors
            )
        yield parameter, known[key]


def _padded_part(serving: Serving, parameter: Parameter, part: HeldPart, padded: Padding) -> HeldPart:
    size = padded(serving, parameter, part.bytes)
    return part if size == part.bytes else HeldPart(part.joined, size)


def _without_index(parameter: Parameter) -> str:
    """The name of a parameter within its block."""
    return _inner(parameter.name, parameter)


def _inner(name: str, parameter: Parameter) -> str:
    return name if parameter.layer is None else name.split(f".{parameter.layer}.", 1)[-1]


def _table_bytes(architecture: Architecture, dtype: str) -> int:
    """The rotary tables; a model with learned positions has none."""
    if any(parameter.role == "position" for parameter in architecture.parameters):
        return 0
    positions = architecture.max_position_embeddings or 0
    kinds = {
        (layer.attention.kind, _rotary_width(layer.attention))
        for layer in architecture.layers
        if layer.attention is not None
    }
    return sum(tensor_bytes((positions, width), dtype) for _, width in kinds)


def _rotary_width(attention: Attention) -> int:
    """Elements that carry the position; latent attention keeps 64 of them apart."""
    return min(LATENT_ROTARY_WIDTH, attention.latent_width) if attention.latent_width else attention.key_head_dim


def _adapter_bytes(serving: Serving, layers: range) -> int:
    adapters = serving.adapters
    if adapters is None:
        return 0
    total, share = 0, shares_of(serving.architecture, serving.split)
    for parameter in serving.architecture.parameters:
        if parameter.layer not in layers or parameter.role not in DECODER_ROLES or len(parameter.shape) != 2:
            continue
        both = sum(parameter.shape) * adapters.rank * adapters.slots
        size = tensor_bytes((both,), serving.dtype)
        total += share(parameter, size)
    return total
