"""What a rule of the table of kernel scratch is asked, and what it answers. Tensors are looked at, never computed with.

A row is memory that an operator takes from the caching allocator and that its fake kernel does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from capienza.errors import phrase

Lifetime: TypeAlias = Literal["op", "persistent"]
OP: Lifetime = "op"
PERSISTENT: Lifetime = "persistent"

WHOLE_CHIPS = {
    (7, 0): 84, (7, 5): 72, (8, 0): 108, (8, 6): 84, (8, 7): 16, (8, 9): 144, (9, 0): 132, (10, 0): 148, (10, 3): 160,
    (12, 0): 192, (12, 1): 48,
}  # fmt: skip
"""Multiprocessors of the largest chip of a compute capability. Some scratch grows with them: this is an upper bound."""
MANY_MULTIPROCESSORS = 160
COPY = phrase("operand, made contiguous")


class ScratchRow(msgspec.Struct, frozen=True):
    """One block; `bytes` is None where its size is not known.

    `op` blocks live as long as the operator runs; of `persistent` ones there is one a `key`, taken the first time and
    kept. `verified` says that the source was read and leaves nothing open, not that a card was measured.
    """

    name: str
    bytes: int | None
    source: str
    lifetime: Lifetime = OP
    key: str = ""
    verified: bool = True


class Card(msgspec.Struct, frozen=True):
    """The card and the release of PyTorch. `multiprocessors` 0: those of the largest chip of its capability."""

    capability: tuple[int, int]
    torch: tuple[int, int] = (2, 13)
    multiprocessors: int = 0

    @property
    def processors(self) -> int:
        """Its multiprocessors, or an upper bound."""
        return self.multiprocessors or WHOLE_CHIPS.get(self.capability, MANY_MULTIPROCESSORS)

    @property
    def threads_a_processor(self) -> int:
        """Threads a multiprocessor holds (CUDA programming guide, technical specifications)."""
        return {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536, (12, 1): 1536}.get(
            self.capability, 2048
        )


class Asked(msgspec.Struct, frozen=True):
    """An operator about to run: its arguments in the order of its schema, the card, and whether autograd runs it."""

    args: tuple[Any, ...]
    named: dict[str, Any]
    card: Card
    in_backward: bool = False
    deterministic: bool = False

    def at(self, position: int, name: str = "", default: Any = None) -> Any:
        """An argument by position, or by name where it was given so."""
        if position < len(self.args):
            return self.args[position]
        return self.named.get(name, default)


Rule: TypeAlias = Callable[[Asked], Iterable[ScratchRow]]
Table: TypeAlias = dict[str, Rule]


def ceiling(size: int, step: int) -> int:
    """How many steps cover a size."""
    return -(-size // step)


def rounded(size: int, step: int) -> int:
    """A size brought up to a multiple of a step."""
    return ceiling(size, step) * step


def is_in_order(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Do elements of this shape and these strides lie row by row?"""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def copied(tensor: Any, source: str, axes: Sequence[int] = ()) -> Iterable[ScratchRow]:
    """The copy that a kernel makes of an operand that is not contiguous, once its dimensions stand as in `axes`."""
    if tensor is None:
        return
    shape, strides = tensor.shape, tensor.stride()
    order = axes or range(len(shape))
    if not is_in_order([shape[axis] for axis in order], [strides[axis] for axis in order]):
        yield ScratchRow(COPY, tensor.numel() * tensor.dtype.itemsize, source)


def device_index(tensor: Any) -> int:
    """The number of a tensor's device. A fake tensor is asked for it without an operator."""
    device = getattr(tensor, "fake_device", None) or tensor.device
    return device.index or 0
