"""ggml's scheduler: on which backend every node runs, and which tensors are copied to another one.

Legend: backends are the devices in order, the CPU last; split a run of nodes on one backend; input of a split a tensor
of another backend that it reads, of which the split holds a copy. With n copies (pipeline parallelism) every input of
the graph and of a split exists n times, for the whole run.
Weights draw their operations to themselves; large batches on host weights go to the first device instead; what is left
joins its neighbours, devices before the CPU.
Source: `ggml_backend_sched_split_graph` (ggml-backend.cpp of llama.cpp at 0c1e57098), whose passes these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from capienza.predict.inference.llamacpp.backend import CPU, MAPPED
from capienza.predict.inference.llamacpp.graph.graph import Graph
from capienza.predict.inference.llamacpp.graph.node import VIEWS, Node

OFFLOADED_ROWS = 32
"""Rows from which a device computes with weights that stand in host memory."""
NOT_DRAWN = frozenset({"rope", "flash_attn_ext"})
"""Their weights are too small to choose a backend."""
ALWAYS_COPIED = 4
"""Copies of each input with pipeline parallelism (GGML_SCHED_MAX_COPIES)."""

Placed = list[tuple[Node, int]]


class Scheduler:
    """`devices` are the backends before the CPU; `copies` of every input; `op_offload` as the engine option."""

    def __init__(self, devices: Sequence[str], *, copies: int, op_offload: bool) -> None:
        self.numbers = {device: number for number, device in enumerate(devices)}
        self.cpu = len(devices)
        self.copies = copies
        self.op_offload = op_offload

    def backend(self, owner: str) -> int:
        """The backend that reads the memory of an owner."""
        return self.numbers.get(owner, self.cpu)

    def assign(self, graph: Graph) -> None:
        """A backend for every node and leaf."""
        for tensor in (*graph.leaves, *graph.nodes):
            if tensor.home < 0:
                tensor.home = self._from_memory(tensor)
        computing = [node for node in graph.nodes if node.op not in VIEWS]
        for ordered, is_device_only in (
            (computing, True),
            (computing[::-1], True),
            (computing, False),
            (computing[::-1], False),
        ):
            self._spread(ordered, is_device_only=is_device_only)
        for node in graph.nodes:
            self._follow(node)

    def _from_memory(self, tensor: Node) -> int:
        held = tensor.held_by
        if held is not None:
            return self.backend(held)
        if tensor.is_input:
            return self.cpu
        if tensor.op in NOT_DRAWN:
            return -1
        for source in tensor.sources:
            if source.is_weight and source.owner is not None:
                home = self.backend(source.owner)
                return 0 if home == self.cpu and self._goes_to_device(tensor, source.owner) else home
        return -1

    def _goes_to_device(self, node: Node, owner: str) -> bool:
        """True when a device takes the operation with the host's weights."""
        if not self.op_offload or not self.numbers or not is_host(owner) or node.op == "get_rows":
            return False
        if node.op == "mul_mat":
            rows = node.ne[1]
        elif node.op in ("mul_mat_id", "rope"):
            rows = node.ne[2]
        else:
            rows = node.ne[1] * node.ne[2] * node.ne[3]
        return rows >= OFFLOADED_ROWS

    def _spread(self, nodes: Iterable[Node], *, is_device_only: bool) -> None:
        """Nodes without a backend take that of the last one before them."""
        current = -1
        for node in nodes:
            if node.home >= 0:
                current = -1 if is_device_only and node.home == self.cpu else node.home
            elif current >= 0:
                node.home = current

    def _follow(self, node: Node) -> None:
        """Views and operands take the backend of what they look into or are read by."""
        if node.view is not None and node.home < 0:
            node.home = node.view.home
        for source in node.sources:
            if source.home < 0:
                source.home = source.view.home if source.view is not None else node.home
        if node.home < 0:
            node.home = 0

    def _reads(self, home: int, source: Node) -> bool:
        """True when the backend can read the tensor where it stands."""
        if source.home == home:
            return True
        held = source.held_by
        where = self.backend(held) if held is not None else source.home
        return where == home

    def split(self, graph: Graph) -> tuple[Placed, Placed]:
        """Nodes and leaves as they are allocated, with the copies of every split."""
        placed: Placed = []
        made: dict[tuple[int, int], list[Node]] = {}
        copies: Placed = []
        start, current = 0, next((node.home for node in graph.nodes if node.op not in VIEWS), self.cpu)
        inputs: list[Node] = []

        def close(end: int) -> None:
            for source in inputs:
                dependency = Node("none", source.ne, source.kind, (source,), view=source, nb=source.nb)
                placed.append((dependency, source.home))
                placed.append((made[id(source), current][0], current))
            placed.extend((node, node.home) for node in graph.nodes[start:end])

        for index, node in enumerate(graph.nodes):
            if node.op in VIEWS:
                continue
            if node.home != current or (inputs and self._needs_weight(node, current)):
                close(index)
                start, current, inputs = index, node.home, []
            for position, source in enumerate(node.sources):
                if self._reads(current, source):
                    continue
                key = id(source), current
                if key not in made:
                    made[key] = [_copy(source, current) for _ in range(self.copies)]
                    inputs.append(source)
                    copies += [(copy, current) for copy in made[key]]
                    if self.copies > 1:
                        for copy in made[key]:
                            copy.is_input = copy.is_output = True
                node.sources[position] = made[key][0]
        close(len(graph.nodes))
        leaves: Placed = []
        if self.copies > 1:
            leaves = [*self._graph_inputs(graph), *copies]
        return placed, leaves + [(leaf, leaf.home) for leaf in graph.leaves]

    def _needs_weight(self, node: Node, home: int) -> bool:
        """True when a weight has to be copied for the node: a new split lets go of the weights before it."""
        return any(source.is_weight and not self._reads(home, source) for source in node.sources)

    def _graph_inputs(self, graph: Graph) -> Placed:
        """The inputs of the graph as often as they exist, the tensor itself first."""
        found: Placed = []
        for leaf in graph.leaves:
            if leaf.is_input:
                leaf.is_output = True
                others = [_copy(leaf, leaf.home) for _ in range(self.copies - 1)]
                for other in others:
                    other.is_input = other.is_output = True
                found += [(tensor, leaf.home) for tensor in (leaf, *others)]
        return found


def _copy(source: Node, home: int) -> Node:
    """A tensor of the same layout on another backend."""
    copy = Node("none", source.ne, source.kind, nb=source.nb)
    copy.home = home
    return copy


def is_host(owner: str) -> bool:
    """True for host memory that a device can copy from; repacked weights cannot be."""
    return owner in (CPU, MAPPED) or owner.endswith("_Host")
