"""A compute graph in the order in which it runs.

Legend: leaf a tensor that nothing computes. A tensor is added with all that it needs, operands from left to right.
Source: `ggml_visit_parents_graph` and `ggml_build_forward_expand` (ggml.c of llama.cpp at 0c1e57098).
"""

from __future__ import annotations

from capienza.predict.inference.llamacpp.graph.node import Node, Sizes4
from capienza.predict.inference.llamacpp.graph.operations import four


class Graph:
    """Nodes in the order in which they run, and leaves."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leaves: list[Node] = []

    def add(self, tensor: Node) -> None:
        """The tensor and what it needs."""
        if tensor.seen:
            return
        tensor.seen = True
        for source in tensor.sources:
            if not source.seen:
                self.add(source)
        (self.nodes if tensor.op != "none" else self.leaves).append(tensor)

    def input(self, *ne: int, kind: str = "fp32") -> Node:
        """A tensor that the host fills before each run."""
        tensor = Node("none", four(ne), kind)
        tensor.is_input = True
        return tensor


def weight(ne: Sizes4, kind: str, owner: str) -> Node:
    """A tensor of the model."""
    tensor = Node("none", ne, kind, owner=owner)
    tensor.is_weight = True
    return tensor


def cache(ne: Sizes4, kind: str, owner: str) -> Node:
    """A tensor of a cache."""
    return Node("none", ne, kind, owner=owner)
