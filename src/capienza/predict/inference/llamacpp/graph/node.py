"""One tensor of a compute graph: its shape and strides, what it is made from, and whose memory it looks into.

Legend: ne sizes, row length first, always four; nb strides in bytes; view the tensor whose memory this one shares (the
last one of a chain); owner the device of memory that exists before the graph (weights, caches).
Source: the constructors in ggml.c of llama.cpp at 0c1e57098.
"""

from __future__ import annotations

from typing import Final

from capienza.formats.blocks import BLOCKS

Sizes4 = tuple[int, int, int, int]

UNITS: Final = {"fp32": (1, 4), "fp16": (1, 2), "bf16": (1, 2), "int32": (1, 4), "int64": (1, 8)}
"""Elements and bytes of the formats that a graph computes in."""
VIEWS: Final = frozenset({"view", "reshape", "permute", "transpose"})
"""Operations that compute nothing."""


class Node:
    """A tensor. Graph and allocator keep their own marks on it; `home` is its backend, -1 while none is chosen."""

    __slots__ = (
        "allocated", "buffer", "children", "home", "is_input", "is_output", "is_weight", "kind", "nb", "ne", "offset",
        "op", "owner", "packed_bytes", "seen", "size", "sources", "view", "views",
    )  # fmt: skip

    def __init__(
        self,
        op: str,
        ne: Sizes4,
        kind: str = "fp32",
        sources: tuple[Node | None, ...] = (),
        *,
        view: Node | None = None,
        nb: Sizes4 | None = None,
        owner: str | None = None,
    ) -> None:
        self.op = op
        self.ne = ne
        self.kind = kind
        self.sources = [source for source in sources if source is not None]
        base: Node | None = view
        while base is not None and base.view is not None:
            base = base.view
        self.view: Node | None = base
        if nb is None:
            elements, unit = UNITS.get(kind) or block(kind)
            row = ne[0] // elements * unit
            plane = row * ne[1]
            nb = unit, row, plane, plane * ne[2]
            self.packed_bytes = plane * ne[2] * ne[3]
        else:
            self.packed_bytes = -1
        self.nb = nb
        self.owner = owner
        self.is_weight = False
        self.is_input = False
        self.is_output = False
        self.seen = False
        self.home = -1
        self.size = -1
        self.children = 0
        self.views = 0
        self.allocated = False
        self.buffer = -1
        self.offset = 0

    @property
    def held_by(self) -> str | None:
        """The device of the memory that the tensor stands in, if that exists already."""
        return self.view.owner if self.view is not None else self.owner

    @property
    def bytes(self) -> int:
        """From its first to its last byte."""
        if self.packed_bytes >= 0:
            return self.packed_bytes
        elements, unit = block(self.kind)
        if 0 in self.ne:
            return 0
        first = unit if elements == 1 else self.ne[0] * self.nb[0] // elements
        if elements == 1:
            first += (self.ne[0] - 1) * self.nb[0]
        return first + sum((size - 1) * step for size, step in zip(self.ne[1:], self.nb[1:], strict=True))

    @property
    def count(self) -> int:
        """Number of elements."""
        one, two, three, four = self.ne
        return one * two * three * four

    @property
    def is_contiguous(self) -> bool:
        """True when its elements follow each other without gaps; a dimension of one element cannot break that."""
        expected = strides(self.ne, self.kind)
        return all(size == 1 or step == wanted for size, step, wanted in zip(self.ne, self.nb, expected, strict=True))


def block(kind: str) -> tuple[int, int]:
    """Elements and bytes of the smallest unit of a format."""
    plain = UNITS.get(kind)
    if plain is not None:
        return plain
    found = BLOCKS.get(kind)
    return (found.elements, found.bytes) if found else (1, 2)


def strides(ne: Sizes4, kind: str) -> Sizes4:
    """Strides of a tensor without gaps."""
    elements, unit = block(kind)
    row = ne[0] // elements * unit
    return unit, row, row * ne[1], row * ne[1] * ne[2]


def row_size(kind: str, count: int) -> int:
    """Bytes of `count` elements in whole blocks."""
    elements, unit = block(kind)
    return count // elements * unit
