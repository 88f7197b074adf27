"""What every layer of a graph is built with: the weights by name, the inputs, norms and products.

Legend: u tokens computed at once, of s sequences with u / s each; outputs the rows that become logits.
Source: `llm_graph_context` (llama-graph.cpp of llama.cpp at 0c1e57098).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import msgspec

from capienza.architecture.model import Layer
from capienza.formats.tensor import Tensor
from capienza.predict.inference.llamacpp.graph.graph import Graph, cache, weight
from capienza.predict.inference.llamacpp.graph.node import Node
from capienza.predict.inference.llamacpp.graph.operations import four, product, same, vector_view
from capienza.predict.inference.llamacpp.model import LlamaModel
from capienza.predict.inference.llamacpp.runtime import LlamaRuntime, Sizes

SECTIONED = frozenset({"glm4v", "qwen2vl", "qwen35", "qwen35moe", "qwen3vl", "qwen3vlmoe"})
"""Rotary positions in sections (`n_pos_per_embd` 4)."""
ROTARY_TABLES = ("rope_freqs.weight", "rope_factors_long.weight")
SMALL_BATCH = 32
"""Tokens below which norms are kept on their layer's device even when the host holds layers."""


class UnknownGraphError(Exception):
    """A graph that is not described; `missing` is the tensor or the kind of layer that it lacks."""

    def __init__(self, missing: str) -> None:
        super().__init__(missing)
        self.missing = missing


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One batch: tokens, sequences, rows of logits."""

    tokens: int
    sequences: int
    outputs: int

    @property
    def each(self) -> int:
        """Tokens of one sequence."""
        return self.tokens // self.sequences


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Backends by number: of every block, of the CPU; the memory of every backend, weight and block's cache by name."""

    blocks: tuple[int, ...]
    cpu: int
    owners: tuple[str, ...]
    weights: Mapping[str, str]
    caches: tuple[str, ...]
    tied_output: str | None
    is_whole: bool


class Build:
    """A graph under construction. `flash`: attention is one operation; `pins`: some nodes are put on a backend."""

    def __init__(
        self,
        model: LlamaModel,
        runtime: LlamaRuntime,
        sizes: Sizes,
        step: Step,
        where: Where,
        tensors: Mapping[str, Tensor],
        *,
        flash: bool,
        pins: bool,
    ) -> None:
        self.graph = Graph()
        self.model = model
        self.runtime = runtime
        self.sizes = sizes
        self.step = step
        self.where = where
        self.tensors = tensors
        self.flash = flash
        self.pins = pins
        self.attentions: list[tuple[int, Node]] = []
        """Block and flash attention operation, where there is one."""
        self._weights: dict[str, Node] = {}
        self._shared: dict[tuple[str, int], Node] = {}

    def add(self, tensor: Node) -> None:
        """The tensor and what it needs run now."""
        self.graph.add(tensor)

    def pin(self, tensor: Node, home: int) -> None:
        """The tensor is computed on that backend, wherever its operands are."""
        if self.pins:
            tensor.home = home

    def weight(self, name: str) -> Node | None:
        """A tensor of the model; None when the file has none of that name."""
        found = self._weights.get(name)
        if found is None:
            tensor = self.tensors.get(name)
            if tensor is None:
                return None
            found = weight(four(tensor.shape[::-1]), tensor.dtype, self.where.weights.get(name, "CPU"))
            self._weights[name] = found
        return found

    def needed(self, name: str) -> Node:
        """A tensor that the layer cannot do without. Raises `UnknownGraphError` with its name."""
        found = self.weight(name)
        if found is None:
            raise UnknownGraphError(name)
        return found

    @cached_property
    def head(self) -> Node:
        """The output matrix; a tied one is a second copy of the embedding, on the device of the output layer."""
        if "output.weight" in self.tensors:
            return self.needed("output.weight")
        embedding = self.needed("token_embd.weight")
        if self.where.tied_output is None:
            return embedding
        return weight(embedding.ne, embedding.kind, self.where.tied_output)

    def input(self, name: str, *ne: int, kind: str = "fp32", of: int = 0) -> Node:
        """An input of the graph, the same each time it is asked for."""
        return self.once(name, lambda: self.graph.input(*ne, kind=kind), of=of)

    def once(self, name: str, make: Callable[[], Node], *, of: int = 0) -> Node:
        """A tensor that all layers share."""
        key = name, of
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    @property
    def positions(self) -> Node:
        """Positions of the tokens; some architectures have one for each of four sections."""
        each = 4 if self.model.architecture in SECTIONED else 1
        return self.input("positions", self.step.tokens * each, kind="int32")

    def norm(self, x: Node, name: str, block: int | None, *, op: str = "rms_norm") -> Node:
        """A norm with its weight and bias; a block's own keeps it on the block's device."""
        scale, bias = self.weight(f"{name}.weight") or self.weight(name), self.weight(f"{name}.bias")
        result = same(op, x)
        if scale is None and bias is None:
            return result
        if block is not None and (self.where.is_whole or self.step.tokens < SMALL_BATCH):
            self.pin(result, self.where.blocks[block])
        if scale is not None:
            result = same("mul", result, scale)
        return same("add", result, bias) if bias is not None else result

    def linear(self, x: Node, name: str) -> Node:
        """A product with a matrix, and its bias."""
        result = product(self.needed(f"{name}.weight"), x)
        bias = self.weight(f"{name}.bias")
        return same("add", result, bias) if bias is not None else result

    def rope(self, x: Node, block: int) -> Node:
        """Rotated by the positions; the table of factors stands on every device that has blocks."""
        factors = None
        for name in ROTARY_TABLES:
            tensor = self.tensors.get(name)
            if tensor is not None:
                owner = self.where.owners[self.where.blocks[block]]
                key = f"{name}@{owner}"
                if key not in self._weights:
                    self._weights[key] = weight(four(tensor.shape[::-1]), tensor.dtype, owner)
                factors = self._weights[key]
                break
        return same("rope", x, self.positions, factors)

    def state_cache(self, layer: Layer, part: str) -> Node:
        """The states of one layer, a row for each sequence and each one that can be gone back to."""
        elements = sum(found.elements for found in layer.state.parts if found.name == part) if layer.state else 0
        rows = max(1, self.runtime.n_seq_max) * (1 + self.runtime.snapshots)
        return cache((elements, rows, 1, 1), "fp32", self.where.caches[layer.index])

    def state_rows(self) -> tuple[Node, Node]:
        """Which states a batch starts from, and those that are only moved."""
        rows = max(1, self.runtime.n_seq_max)
        numbers = self.input("state_rows", rows, kind="int32")
        here = self.step.sequences
        return (
            self.once("states_here", lambda: vector_view(numbers, here)),
            self.once("states_elsewhere", lambda: vector_view(numbers, rows - here)),
        )
