"""What a call of scaled dot product attention looks like, and the card and build that would run it. No torch needed.

B batch, H heads of the query, G heads of key and value, L queries, S keys, E size of a head of query and key, V size of
a head of value. Strides and offsets count elements.
"""

from __future__ import annotations

import math

import msgspec

from capienza.errors import Message

FLASH, EFFICIENT, CUDNN, MATH = "flash", "efficient", "cudnn", "math"
KERNELS = (FLASH, EFFICIENT, MATH, CUDNN)
HALF_TYPES = ("float16", "bfloat16")
ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1, "bool": 1}


class Operand(msgspec.Struct, frozen=True):
    """A tensor handed to attention: shape, strides, type (`"bfloat16"`), and whether a gradient is asked of it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    requires_grad: bool = False
    offset: int = 0
    nested: bool = False

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


def contiguous(*shape: int, dtype: str = "bfloat16", requires_grad: bool = False) -> Operand:
    """An operand laid out row by row."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return Operand(shape, tuple(reversed(strides)), dtype, requires_grad)


class Call(msgspec.Struct, frozen=True):
    """One call: query (B, H, L, E), key (B, G, S, E), value (B, G, S, V), and a mask that spreads to (B, H, L, S)."""

    query: Operand
    key: Operand
    value: Operand
    mask: Operand | None = None
    dropout: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False
    gradients_recorded: bool = True

    @property
    def trains(self) -> bool:
        """Will a backward pass of query, key or value follow?"""
        inputs = (self.query, self.key, self.value)
        return self.gradients_recorded and any(operand.requires_grad for operand in inputs)

    @property
    def is_nested(self) -> bool:
        """Is one of query, key and value a nested tensor?"""
        return self.query.nested or self.key.nested or self.value.nested


class Machine(msgspec.Struct, frozen=True):
    """What decides besides the call: the card, the releases, and what the program switched on or off.

    `cudnn` as cuDNN numbers itself (9.20.0 is 92000); None stands for the one that PyTorch brings. `order` is the order
    asked for by the program, None where it asked for none.
    """

    capability: tuple[int, int]
    torch: tuple[int, int]
    cudnn: int | None = None
    enabled: frozenset[str] = frozenset(KERNELS)
    order: tuple[str, ...] | None = None
    deterministic: bool = False
    cudnn_first: bool | None = None
    """Set by `TORCH_CUDNN_SDPA_PREFERRED` or `TORCH_CUDNN_SDPA_DEPRIORITIZED`; None where neither is set."""


class Refusal(msgspec.Struct, frozen=True):
    """A kernel that was asked before the chosen one, and why it does not take the call."""

    kernel: str
    reason: Message


class Choice(msgspec.Struct, frozen=True):
    """The kernel that runs (None: PyTorch raises), those refused before it, and what had to be assumed."""

    kernel: str | None
    refused: tuple[Refusal, ...] = ()
    assumed: tuple[Message, ...] = ()
