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

import msgspec

from capienza.predict.training.kernels import column_sum_bytes

ALLOCATED, FREED, RENAMED, SEGMENT = 0, 1, 2, 3
"""Codes of a tape's events: (code, block, size in bytes, kind)."""
ONCE = 1
"""In the place of a size beside `RENAMED`: the block stands for itself, whatever its part of the program stands for."""
ACTIVATIONS, LOGITS, GRADIENTS, WORKING = range(4)
"""What a block is for."""
GRANULE_BYTES = 512

Event: TypeAlias = tuple[int, Any, int, int]


class Block:
    """Memory from its allocation to the end of its last holder."""

    __slots__ = ("append", "number")

    append: Callable[[Event], None]
    number: int

    def __del__(self) -> None:
        self.append((FREED, self.number, 0, 0))


# Thousands of these are made for an answer. Structs cost a third of plain objects; the collector need not look at them,
# for whatever is in a circle would never give its block back.
class Tensor(msgspec.Struct, eq=False, gc=False):
    """`elements` of `item` bytes; `edge` where a gradient goes. `block` None: resident, not on this tape."""

    elements: int
    item: int
    block: Block | None
    edge: Edge | None = None


class Spread(msgspec.Struct, eq=False, gc=False):
    """A gradient still to be cast, or summed to `elements` of `item` bytes: over `rows` each, 0 for those of a row."""

    gradient: Tensor
    elements: int
    rows: int
    item: int


Gradients: TypeAlias = "list[Tensor | None]"
Results: TypeAlias = "Sequence[Tensor | Spread | None]"
Kept: TypeAlias = "list[Block | None] | None"
Backward: TypeAlias = "Callable[..., Results]"


class Node(msgspec.Struct, eq=False, gc=False):
    """One operation of the forward pass: its inputs' edges, what it keeps, and what it does for a gradient.

    While the backward pass runs it is `waiting` for so many gradients, and `gradients` are those that came.
    `takes_kept`: `backward` is given what was kept: it runs from it again, or writes the gradients over it.
    """

    # They end in this order: what a node keeps goes after what leads to it.
    backward: Backward
    edges: Sequence[Edge | None]
    order: int
    results: int
    kept: Any = None
    takes_kept: bool = False
    waiting: int = 0
    gradients: Gradients | None = None


class Leaf:
    """A weight that is trained: its gradient stays."""

    __slots__ = ("gradient", "gradients", "results", "waiting")

    def __init__(self) -> None:
        self.gradient: Tensor | None = None
        self.results = 1
        self.waiting = 0
        self.gradients: Gradients | None = None


Edge: TypeAlias = tuple[Node | Leaf, int]


_new_block = Block.__new__


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
        self.append = self.events.append
        self.blocks = 0
        self.nodes = 0
        self.kind = ACTIVATIONS
        self.autocast = autocast
        self.casts: dict[Weight, Tensor] | None = None
        self.grad = True
        self.is_training = True
        self.region: Region | None = None
        self.is_recomputing = False
        self.names: dict[str, object] = {}
        """What the training's loop holds by name from one microbatch to the next."""
        self.bounds: list[tuple[int, object]] = []
        """Where parts of the forward pass begin: the number of the last node before, and the part before."""

    def new(self, elements: int, item: int, kind: int | None = None) -> Tensor:
        """A tensor of its own block."""
        block = _new_block(Block)
        block.append, block.number = append, number = self.append, self.blocks
        self.blocks = number + 1
        size = elements * item + GRANULE_BYTES - 1 & -GRANULE_BYTES
        append((ALLOCATED, number, size, self.kind if kind is None else kind))
        return Tensor(elements, item, block)

    def once(self, tensor: Tensor) -> None:
        """A layer of many alike made it, and it is the last one's alone: what the others made stays in the graph."""
        if tensor.block is not None:
            self.append((RENAMED, tensor.block.number, ONCE, self.kind))

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
        if not self.grad:
            return None
        edges: Sequence[Edge | None]
        if len(inputs) == 1 and inputs[0] is not None:
            edges = (inputs[0].edge,)
        else:
            edges = [None if one is None else one.edge for one in inputs]
        if not any(edges):  # an edge is a pair, which is true
            return None
        self.nodes = order = self.nodes + 1
        made = Node(backward, edges, order, results)
        if kept:
            self.keep(made, *kept)
        return made

    def keep(self, node: Node | None, *kept: Tensor | None) -> None:
        """Let a node hold these until it has run."""
        if node is None or not kept:
            return
        blocks = [None if one is None else one.block for one in kept]
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
    _count(node)
    node.gradients = [None] * node.results
    node.gradients[root[1]] = gradient
    del gradient
    ready = [(-node.order, node)]
    while ready:
        node = heapq.heappop(ready)[1]
        while ahead and node.order <= ahead[-1][0]:
            tape.segment(ahead.pop()[1])
        gradients, node.gradients = node.gradients, None
        kept = node.kept if node.kept is None else _unpacked(tape, node)
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
            buffer = target.gradients
            if buffer is None:
                buffer = target.gradients = [None] * target.results
            if result is not None:
                held = buffer[index]
                buffer[index] = result if held is None else tape.new(held.elements, held.item)
                del held
            del buffer, result
            target.waiting -= 1
            if target.waiting:
                continue
            if isinstance(target, Leaf):
                assert target.gradients is not None
                (whole,), target.gradients = target.gradients, None
                if whole is not None:
                    _accumulate(tape, target, whole)
                del whole
            else:
                heapq.heappush(ready, (-target.order, target))


def _count(root: Node) -> None:
    """Let each node know how many gradients it waits for: none when the backward pass is done."""
    stack = [root]
    while stack:
        for edge in stack.pop().edges:
            if edge is None:
                continue
            target = edge[0]
            if not target.waiting and isinstance(target, Node):
                stack.append(target)
            target.waiting += 1


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
