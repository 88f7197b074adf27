"""What is trained: which tensors get a gradient and a state of the optimizer.

Legend: r rank; adapters beside a matrix [out, in] are A [r, in] and B [out, r], with DoRA a vector [out] as well.
    full     every parameter, in the format that the recipe trains in
    adapters pairs beside the matrices whose module's name is a target ("all-linear": all but the head); modules in
             `modules_to_save` are copied and the copy trained, in the format that the base is held in
Unsloth's and fms-acceleration's RMS norm give no gradient for the norm's own weight, so full training with them leaves
norms as they are: no state is ever made. Sources: peft 0.21 tuners/lora, utils/other.py ModulesToSaveWrapper;
unsloth kernels/rms_layernorm.py; fms rows of the shared cases, to the byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from capienza.allocator.sizes import rounded_bytes
from capienza.architecture.model import Architecture, Role
from capienza.predict.training.modules import Piece, pieces
from capienza.recipe.recipe import Adapters, Recipe

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
ALL_LINEAR = "all-linear"
WITHOUT_NORM_GRADIENTS = ("foak", "unsloth")


class Trained(msgspec.Struct, frozen=True):
    """One trained tensor, `count` times over. `kind`: copy beside a frozen original, adapter beside a frozen matrix."""

    name: str
    layer: int | None
    shape: tuple[int, ...]
    bytes_per_element: int
    kind: Literal["whole", "adapter", "copy"]
    role: Role
    count: int = 1

    @property
    def elements(self) -> int:
        """Elements of one of them."""
        return math.prod(self.shape)

    @property
    def block_bytes(self) -> int:
        """What all of them take from the allocator: weights, or as much for their gradients."""
        return self.count * rounded_bytes(self.elements * self.bytes_per_element)


def trained_tensors(architecture: Architecture, recipe: Recipe) -> tuple[Trained, ...]:
    """Everything that is trained, in the model's order."""
    return trained_of(pieces(architecture, recipe), recipe)


def trained_of(made: tuple[Piece, ...], recipe: Recipe) -> tuple[Trained, ...]:
    """What of these pieces is trained, in their order: of one piece of each kind, one tensor of each kind."""
    if recipe.adapters is None:
        return tuple(_whole(made, recipe))
    return tuple(_beside(made, recipe, recipe.adapters))


def block_bytes(tensors: Iterable[Trained]) -> int:
    """What the tensors take from the allocator."""
    counts: dict[tuple[tuple[int, ...], int], int] = {}
    for one in tensors:
        key = one.shape, one.bytes_per_element
        counts[key] = counts.get(key, 0) + one.count
    return sum(count * rounded_bytes(math.prod(shape) * size) for (shape, size), count in counts.items())


def num_trained(tensors: Iterable[Trained]) -> int:
    """Trained parameters."""
    return sum(one.count * one.elements for one in tensors)


def _whole(made: tuple[Piece, ...], recipe: Recipe) -> Iterator[Trained]:
    size = BYTES[recipe.precision.trained]
    names = {one.name for one in made}
    for one in made:
        is_rms = one.role == "norm" and one.name.replace(".weight", ".bias") not in names
        if not (is_rms and recipe.kernels in WITHOUT_NORM_GRADIENTS):
            yield Trained(one.name, one.layer, one.shape, size, "whole", one.role, one.count)


def _beside(made: tuple[Piece, ...], recipe: Recipe, adapters: Adapters) -> Iterator[Trained]:
    size = BYTES[adapters.dtype]
    kept = BYTES["fp32" if recipe.precision.widens_rest else recipe.precision.base]
    asked: dict[tuple[str, tuple[int, ...]], tuple[dict[str, tuple[int, ...]], bool]] = {}
    for one in made:
        key = one.kind, one.shape
        if key not in asked:
            asked[key] = _pair(one, adapters), is_saved(one, adapters)
        pair, is_copied = asked[key]
        if pair:
            name = one.name.removesuffix(".weight")
            for part, shape in pair.items():
                yield Trained(f"{name}.{part}", one.layer, shape, size, "adapter", one.role, one.count)
        if is_copied:
            yield Trained(one.name, one.layer, one.shape, kept, "copy", one.role, one.count)


def _pair(piece: Piece, adapters: Adapters) -> dict[str, tuple[int, ...]]:
    """The shapes of the adapters beside a piece, by their names; none where it is no target."""
    if not is_target(piece, adapters):
        return {}
    rows, columns = piece.shape[::-1] if piece.transposed else piece.shape
    shapes: dict[str, tuple[int, ...]] = {"lora_A": (adapters.rank, columns), "lora_B": (rows, adapters.rank)}
    return shapes | {"lora_magnitude_vector": (rows,)} if adapters.is_dora else shapes


def is_target(piece: Piece, adapters: Adapters) -> bool:
    """Does the piece get a pair of adapters? A target names the end of a module's name."""
    if not piece.is_linear:
        return False
    if adapters.targets == (ALL_LINEAR,):
        return piece.role not in ("embedding", "head", "router")
    module = piece.name.removesuffix(".weight")
    return any(module == target or module.endswith(f".{target}") for target in adapters.targets)


def is_saved(piece: Piece, adapters: Adapters) -> bool:
    """Is the piece part of a module that is trained whole beside the adapters?"""
    module = piece.name.rpartition(".")[0]
    return any(module == name or module.endswith(f".{name}") for name in adapters.modules_to_save)
