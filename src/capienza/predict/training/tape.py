"""A small symbolic autograd: what a PyTorch program's tensors hold, without tensors.

Legend: a block is memory that the allocator gave out, in bytes; a tensor is so many elements of so many bytes in a
block; a node is one operation that will be asked for gradients, an edge leads to one result of a node. Nodes run in
the reverse order of their making, as PyTorch's engine runs them.

A tensor lives as long as a name holds it, as in PyTorch: the programs in `blocks/` are Python functions whose local
names end where those of transformers' modules end, and CPython gives a block back with its last holder.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from capienza.predict.training.kernels import column_sum_bytes

ALLOCATED, FREED, RENAMED, SEGMENT = 0, 1, 2, 3
"""Codes of a tape's events: (code, block, size in bytes, kind)."""
ACTIVATIONS, LOGITS, GRADIENTS, WORKING = range(4)
"""What a block is for."""
GRANULE_BYTES = 512

Event: TypeAlias = tuple[int, Any, int, int]


class Block:
    """Memory from its allocation to the end of its last holder."""

    __slots__ = ("number", "tape")

    def __init__(self, tape: Tape, size_bytes: int, kind: int) -> None:
        self.tape, self.number = tape, tape.blocks
        tape.blocks += 1
        tape.events.append((ALLOCATED, self.number, size_bytes, kind))

    def __del__(self) -> None:
        self.tape.events.append((FREED, self.number, 0, 0))


class Tensor:
    """`elements` of `item` bytes; `edge` where a gradient goes. `block` None: resident, not on this tape."""

    __slots__ = ("block", "edge", "elements", "item")

    def __init__(self, elements: int, item: int, block: Block | None, edge: Edge | None = None) -> None:
        self.elements, self.item, self.block, self.edge = elements, item, block, edge


class Spread:
    """A gradient still to be cast, or summed to `elements` of `item` bytes: over `rows` each, 0 for those of a row."""

    __slots__ = ("elements", "gradient", "item", "rows")

    def __init__(self, gradient: Tensor, elements: int, rows: int, item: int) -> None:
        self.gradient, self.elements, self.rows, self.item = gradient, elements, rows, item


Gradients: TypeAlias = "list[Tensor | None]"
Results: TypeAlias = "Sequence[Tensor | Spread | None]"
Kept: TypeAlias = "list[Block | None] | None"
Backward: TypeAlias = "Callable[..., Results]"


class Node:
    """One operation of the forward pass: its inputs' edges, what it keeps, and what it does for a gradient.

    `takes_kept`: `backward` is given what was kept: it runs from it again, or writes the gradients over it.
    """

    __slots__ = ("backward", "edges", "kept", "order", "results", "takes_kept")

    def __init__(self, order: int, edges: Sequence[Edge | None], backward: Backward, results: int) -> None:
        self.order, self.edges, self.backward, self.results = order, edges, backward, results
        self.kept: Any = None
        self.takes_kept = False


class Leaf:
    """A weight that is trained: its gradient stays."""

    __slots__ = ("gradient", "results")

    def __init__(self) -> None:
        self.gradient: Tensor | None = None
        self.results = 1


Edge: TypeAlias = tuple[Node | Leaf, int]


class Weight:
    """A resident tensor of the model. `cast` is remembered while autocast is on."""

    __slots__ = ("columns", "edge", "elements", "item", "leaf", "quantised", "rows")

    def __init__(self, rows: int, columns: int, item: int, trained: bool, quantised: str | None = None) -> None:
        self.rows, self.columns, self.elements = rows, columns, rows * columns
        self.item, self.quantised = item, quantised
        self.leaf = Leaf() if trained else None
        self.edge: Edge | None = (self.leaf, 0) if self.leaf is not None else None

    @property
    def tensor(self) -> Tensor:
        """The weight as what an operation reads."""
        return Tensor(self.elements, self.item, None, self.edge)


class Complete(Exception):  # noqa: N818 - no error
    """All that was wanted of a recomputation is there."""


class Region:
    """One checkpointed call. `kept` are the blocks that its nodes want, once they are recomputed."""

    __slots__ = ("call", "kept", "wanted")

    def __init__(self) -> None:
        self.call: Callable[[], object] | None = None
        self.wanted = 0
        self.kept: list[Block | None] | None = None


class Tape:
    """The program's events so far, and the modes that it runs in."""

    def __init__(self, autocast: int | None = None) -> None:
        self.events: list[Event] = []
        self.blocks = 0
        self.nodes = 0
        self.kind = ACTIVATIONS
        self.autocast = autocast
        self.casts: dict[Weight, Tensor] | None = None
        self.grad = True
        self.is_training = True
        self.region: Region | None = None
        self.is_recomputing = False
        self.bounds: list[tuple[int, object]] = []
        """Where parts of the forward pass begin: the number of the last node before, and the part before."""

    def new(self, elements: int, item: int, kind: int | None = None) -> Tensor:
        """A tensor of its own block."""
        size = -(-elements * item // GRANULE_BYTES) * GRANULE_BYTES
        return Tensor(elements, item, Block(self, size, self.kind if kind is None else kind))

    def scratch(self, *sizes: int) -> None:
        """What a kernel takes and gives back before it ends."""
        held = [self.new(size, 1, WORKING) for size in sizes if size]
        del held

    def bound(self, name: object) -> None:
        """What was done since the last bound is that part of the program, in the backward pass too."""
        if self.grad:
            self.bounds.append((self.nodes, name))

    def segment(self, name: object) -> None:
        """From here on everything belongs to that part of the program."""
        self.events.append((SEGMENT, name, 0, 0))

    def node(
        self, inputs: Sequence[Tensor | None], backward: Backward, *kept: Tensor | None, results: int = 1
    ) -> Node | None:
        """The operation's node, None where no input wants a gradient. What it keeps is counted here, in order."""
        if not self.grad or all(one is None or one.edge is None for one in inputs):
            return None
        self.nodes += 1
        made = Node(self.nodes, [one.edge if one is not None else None for one in inputs], backward, results)
        self.keep(made, *kept)
        return made

    def keep(self, node: Node | None, *kept: Tensor | None) -> None:
        """Let a node hold these until it has run."""
        if node is None or not kept:
            return
        blocks = [one.block if one is not None else None for one in kept]
        region = self.region
        if region is None:
            node.kept = blocks if node.kept is None else [*node.kept, *blocks]
        elif self.is_recomputing:
            assert region.kept is not None
            region.kept += blocks
            if len(region.kept) >= region.wanted:
                raise Complete
        else:
            first = region.wanted if node.kept is None else node.kept[1]
            region.wanted += len(blocks)
            node.kept = (region, first, region.wanted)

    @contextlib.contextmanager
    def autocasting(self) -> Iterator[None]:
        """What of weights was cast is remembered until the end."""
        before, self.casts = self.casts, {} if self.autocast else None
        try:
            yield
        finally:
            self.casts = before

    @contextlib.contextmanager
    def no_grad(self) -> Iterator[None]:
        """No node is made."""
        before, self.grad = self.grad, False
        try:
            yield
        finally:
            self.grad = before


def connected(tensor: Tensor, node: Node | None, index: int = 0) -> Tensor:
    """The result of an operation, with its way back."""
    if node is not None:
        tensor.edge = (node, index)
    return tensor


def checkpoint(tape: Tape, call: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Run a call of which nothing is kept but what goes in (torch.utils.checkpoint without reentrance)."""
    if not tape.grad:
        return call(rows)
    region = Region()
    region.call = lambda: call(rows)
    before, tape.region = tape.region, region
    try:
        return call(rows)
    finally:
        tape.region = before


def checkpoint_reentrant(tape: Tape, call: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """The same with reentrance: all is recomputed, and its backward pass runs inside."""
    if not tape.grad:
        return call(rows)

    elements, item = rows.elements, rows.item

    def back(gradients: Gradients, kept: list[Block | None]) -> Results:
        leaf = Leaf()
        entry = Tensor(elements, item, kept[0], (leaf, 0))
        kind, tape.kind = tape.kind, WORKING
        with tape.autocasting():
            out = call(entry)
        tape.kind = kind
        edge = out.edge
        gradient = gradients[0]
        del out, entry
        if edge is not None and gradient is not None:
            backward(tape, edge, gradient)
        made = leaf.gradient
        if made is not None and made.block is not None:
            tape.events.append((RENAMED, made.block.number, 0, kind))  # it goes on to the layer before
        return (made,)

    with tape.no_grad():
        out = call(rows)
    node = tape.node((rows,), back, rows)
    if node is not None:
        node.takes_kept = True
    return connected(out, node)


def backward(tape: Tape, root: Edge, gradient: Tensor, bounds: Sequence[tuple[int, object]] = ()) -> None:
    """Ask for the gradients of all leaves; what nodes kept goes as they run.

    `bounds`: the nodes up to that number belong to that segment, the highest number last.
    """
    ahead = list(bounds)
    node = root[0]
    if isinstance(node, Leaf):
        return
    waiting = _waiting(node)
    buffers: dict[Node | Leaf, Gradients] = {node: [None] * node.results}
    buffers[node][root[1]] = gradient
    del gradient
    ready = [(-node.order, node)]
    while ready:
        node = heapq.heappop(ready)[1]
        while ahead and node.order <= ahead[-1][0]:
            tape.segment(ahead.pop()[1])
        gradients = buffers.pop(node)
        kept = _unpacked(tape, node)
        made = list(node.backward(gradients, kept) if node.takes_kept else node.backward(gradients))
        # What was recomputed goes as the function ends; gradients of what was spread are summed after that.
        kept = None
        results = [_summed(tape, one) if isinstance(one, Spread) else one for one in made]
        del gradients, made
        node.kept = None
        for place, edge in enumerate(node.edges):
            result, results[place] = results[place], None
            if edge is None:
                continue
            target, index = edge
            buffer = buffers.setdefault(target, [None] * target.results)
            if result is not None:
                held = buffer[index]
                buffer[index] = result if held is None else tape.new(held.elements, held.item)
                del held
            del buffer, result
            waiting[target] -= 1
            if waiting[target]:
                continue
            if isinstance(target, Leaf):
                (whole,) = buffers.pop(target)
                if whole is not None:
                    _accumulate(tape, target, whole)
                del whole
            else:
                heapq.heappush(ready, (-target.order, target))


def _waiting(root: Node) -> dict[Node | Leaf, int]:
    """How many gradients each node waits for."""
    counts: dict[Node | Leaf, int] = {root: 0}
    stack = [root]
    while stack:
        for edge in stack.pop().edges:
            if edge is None:
                continue
            target = edge[0]
            if target not in counts:
                counts[target] = 0
                if isinstance(target, Node):
                    stack.append(target)
            counts[target] += 1
    return counts


def _unpacked(tape: Tape, node: Node) -> list[Block | None] | None:
    """What the node kept, recomputed if it is not there any more."""
    if not isinstance(node.kept, tuple):
        kept: list[Block | None] | None = node.kept
        return kept
    region, first, end = node.kept
    if region.kept is None:
        _recompute(tape, region)
    found: list[Block | None] = region.kept[first:end]
    region.kept[first:end] = [None] * (end - first)
    return found


def _recompute(tape: Tape, region: Region) -> None:
    region.kept = []
    before = tape.region, tape.is_recomputing
    kind, tape.kind = tape.kind, WORKING
    tape.region, tape.is_recomputing = region, True
    assert region.call is not None
    try:
        with tape.autocasting():
            region.call()
    except Complete:
        pass
    finally:
        tape.region, tape.is_recomputing = before
        tape.kind = kind


def _summed(tape: Tape, spread: Spread) -> Tensor:
    made = spread.gradient
    if spread.elements < made.elements:
        made = tape.new(spread.elements, made.item)
        if spread.rows:
            tape.scratch(column_sum_bytes(spread.elements, spread.rows))
    return made if spread.item == made.item else tape.new(spread.elements, spread.item)


def _accumulate(tape: Tape, leaf: Leaf, gradient: Tensor) -> None:
    """The first gradient is taken over; later ones are added in place."""
    if leaf.gradient is None:
        leaf.gradient = gradient
        if gradient.block is not None:
            tape.events.append((RENAMED, gradient.block.number, 0, GRADIENTS))
