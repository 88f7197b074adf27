"""ggml's graph allocator: where every tensor of a graph would be put, and so how large each buffer becomes.

Legend: block a free stretch of a buffer; the last one is open. A tensor takes the smallest closed block that holds it,
else the start of the open one; it is given back when its last reader has run, and joins its free neighbours. An
operation that can work in place takes the memory of an operand that nobody else reads any more.
Source: ggml-alloc.c of llama.cpp at 0c1e57098 (`ggml_dyn_tallocr_*`, `ggml_gallocr_*`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capienza.predict.inference.llamacpp.graph.node import Node
from capienza.predict.inference.llamacpp.graph.operations import IN_PLACE

ENDLESS = 1 << 62


class Arena:
    """One buffer: its free blocks in order of address, and the furthest byte ever used."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.starts: list[int] = [0]
        self.sizes: list[int] = [ENDLESS]
        self.peak = 0

    def take(self, size: int) -> int:
        """The address of a new tensor of a padded size."""
        sizes = self.sizes
        best, best_size = len(sizes) - 1, ENDLESS
        for index in range(len(sizes) - 1):
            if size <= sizes[index] <= best_size:
                best, best_size = index, sizes[index]
        start = self.starts[best]
        if sizes[best] == size:
            del self.starts[best], sizes[best]
        else:
            self.starts[best] = start + size
            sizes[best] -= size
        self.peak = max(self.peak, start + size)
        return start

    def give(self, start: int, size: int) -> None:
        """A stretch is free again."""
        starts, sizes = self.starts, self.sizes
        for index, begin in enumerate(starts):
            if begin + sizes[index] == start:
                sizes[index] += size
                if index + 1 < len(starts) and starts[index + 1] == start + size:
                    sizes[index] += sizes[index + 1]
                    del starts[index + 1], sizes[index + 1]
                return
            if start + size == begin:
                starts[index] = start
                sizes[index] += size
                if index and starts[index - 1] + sizes[index - 1] == start:
                    sizes[index - 1] += sizes[index]
                    del starts[index], sizes[index]
                return
        position = next((index for index, begin in enumerate(starts) if begin >= start), len(starts))
        starts.insert(position, start)
        sizes.insert(position, size)

    def padded(self, size: int) -> int:
        """The next multiple of the alignment."""
        return -(-size // self.alignment) * self.alignment


class Allocator:
    """Goes through a graph once. `size_of` is what a tensor takes in the buffer of a backend, unpadded."""

    def __init__(self, alignments: Sequence[int], size_of: Callable[[Node, int], int]) -> None:
        self.arenas = [Arena(alignment) for alignment in alignments]
        self.size_of = size_of

    def run(self, nodes: Sequence[tuple[Node, int]], leaves: Sequence[tuple[Node, int]]) -> list[int]:
        """Bytes of each buffer. Nodes and leaves come with the number of their backend."""
        for leaf, home in leaves:
            self._place(leaf, home)
        for node, home in nodes:
            if node.view is not None and node.op != "none":
                node.view.views += 1
            if node.is_input:
                self._place(node, home)
            for source in node.sources:
                source.children += 1
                if source.is_input:
                    self._place(source, home)
        for node, home in nodes:
            for source in node.sources:
                self._place(source, home)
            self._place(node, home)
            for source in node.sources:
                source.children -= 1
                if source.children == 0 and source.views == 0:
                    self._release(source)
        return [arena.peak for arena in self.arenas]

    def _place(self, node: Node, home: int) -> None:
        if node.allocated or node.view is not None or node.owner is not None:
            return
        node.allocated = True
        if node.op in IN_PLACE and self._reuse(node):
            return
        node.buffer = home
        arena = self.arenas[home]
        node.size = arena.padded(self.size_of(node, home))
        node.offset = arena.take(node.size)

    def _reuse(self, node: Node) -> bool:
        """Take over the memory of an operand that only this operation still reads; a view is never taken over."""
        for parent in node.sources:
            if not parent.allocated or parent.is_output or parent.children != 1 or parent.views:
                continue
            if parent.kind != node.kind or parent.ne != node.ne or parent.nb != node.nb:
                continue
            parent.allocated = False
            node.buffer, node.offset = parent.buffer, parent.offset
            arena = self.arenas[parent.buffer]
            node.size = arena.padded(self.size_of(node, parent.buffer))
            if parent.size > node.size:
                arena.give(parent.offset + node.size, parent.size - node.size)
            return True
        return False

    def _release(self, node: Node) -> None:
        """Nobody reads the tensor any more: its memory, or a part of its owner's use, ends."""
        base = node.view
        if base is not None:
            base.views -= 1
            if base.views or base.children or not base.allocated:
                return
            node = base
        if node.allocated and not node.is_output:
            self.arenas[node.buffer].give(node.offset, node.size)
            node.allocated = False
