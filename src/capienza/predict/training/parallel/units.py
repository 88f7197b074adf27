"""What data-parallel libraries gather and shard: weights, in units that travel together.

Legend: a unit is what one collective moves (a wrapped module; for FSDP1 its flat parameter); n ranks share a copy; a
shard is one rank's part of it. Sizes are of blocks of PyTorch's allocator, which are multiples of 512 bytes.
"""

from __future__ import annotations

import math

import msgspec

BLOCK_BYTES = 512


class Weight(msgspec.Struct, frozen=True):
    """A parameter as it is stored: its shape, bytes of an element, and whether it gets a gradient.

    `has_states` False: it gets one only because it lies in one flat parameter with others, and is not optimized.
    """

    shape: tuple[int, ...]
    element_bytes: int
    is_trained: bool = True
    has_states: bool = True

    @property
    def elements(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


class Unit(msgspec.Struct, frozen=True):
    """Weights that are gathered together."""

    name: str
    weights: tuple[Weight, ...]

    @property
    def elements(self) -> int:
        """Of all its weights."""
        return sum(weight.elements for weight in self.weights)

    @property
    def state_elements(self) -> int:
        """Of the weights that an optimizer has states for."""
        return sum(weight.elements for weight in self.weights if weight.is_trained and weight.has_states)


class Model(msgspec.Struct, frozen=True):
    """The units of each layer, in the order of the forward pass, and those that no layer holds: the root's.

    A layer has one unit, or more where parts of it are wrapped by themselves (adapters beside frozen weights).
    """

    layers: tuple[tuple[Unit, ...], ...]
    root: tuple[Unit, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        """All of them."""
        return (*(unit for layer in self.layers for unit in layer), *self.root)


def block_bytes(amount_bytes: int) -> int:
    """What the allocator takes for a tensor: the next multiple of 512 bytes."""
    return -(-amount_bytes // BLOCK_BYTES) * BLOCK_BYTES


def share(elements: int, ranks: int) -> int:
    """One rank's part of so many elements, padded to equal parts."""
    return -(-elements // ranks)


def row_share(weight: Weight, ranks: int) -> int:
    """Elements of one rank's part of a weight that is cut along its first dimension, padded to equal rows."""
    if not weight.shape:
        return 1
    return share(weight.shape[0], ranks) * math.prod(weight.shape[1:])
