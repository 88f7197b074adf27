"""torchtitan's Llama, one microbatch of one rank, as parts of a step (torchtitan/models/llama/model.py, early 2025).

Legend: N tokens of a microbatch. Weights come in bf16 (FSDP gathers them so), the loss is of fp32 logits, which the
training loop lets go before the backward pass; until June 2024 the model itself made them fp32, and the loop held them
until its end (pull request 391, "del logits"): N x vocabulary x 4 more. Norms are written out in fp32, rotary positions
are complex products of fp32, keys and values are repeated for every head, attention is flash's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from capienza.predict.training.operations import FP32, add, cast, elementwise, mean, multiply, shift, split
from capienza.predict.training.parallel.passage import Passage, passages_of
from capienza.predict.training.parallel.selective import checkpoint_selectively, kept
from capienza.predict.training.parallel.units import Model, Unit
from capienza.predict.training.parallel.units import Weight as Stored
from capienza.predict.training.tape import Gradients, Tape, Tensor, Weight, backward, checkpoint, connected

BF16, INDEX = 2, 8
FLASH_ROWS = 128
Checkpointing = Literal["none", "selective", "full"]


class Llama(msgspec.Struct, frozen=True, kw_only=True):
    """Dimensions.

    `tensor_ranks` share heads, feed-forward width and vocabulary; between these, each has its tokens' rows (sequence
    parallel), gathered before a product and scattered after it; the loss is of a rank's vocabulary.
    """

    layers: int
    hidden: int
    heads: int
    key_heads: int
    head: int
    feed_forward: int
    vocabulary: int
    tensor_ranks: int = 1

    @property
    def layer_shapes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of a rank's part of a layer's weights, in the order in which they are registered."""
        queries, keys = self.heads * self.head // self.tensor_ranks, self.key_heads * self.head // self.tensor_ranks
        inner = self.feed_forward // self.tensor_ranks
        return {
            "wq": (queries, self.hidden), "wk": (keys, self.hidden), "wv": (keys, self.hidden),
            "wo": (self.hidden, queries), "w1": (inner, self.hidden), "w2": (self.hidden, inner),
            "w3": (inner, self.hidden), "attention_norm": (1, self.hidden), "ffn_norm": (1, self.hidden),
        }  # fmt: skip

    @property
    def table_shape(self) -> tuple[int, int]:
        """Of a rank's part of the embeddings, and of the head."""
        return self.vocabulary // self.tensor_ranks, self.hidden


def llama_units(model: Llama, element_bytes: int = FP32) -> Model:
    """What `fully_shard` takes together: every layer, and the rest."""

    def unit(name: str, shapes: Sequence[tuple[int, int]]) -> Unit:
        # A norm's weight is a vector.
        flat = [(columns,) if rows == 1 else (rows, columns) for rows, columns in shapes]
        return Unit(name, tuple(Stored(shape, element_bytes) for shape in flat))

    return Model(
        layers=((unit("layer", list(model.layer_shapes.values())),),) * model.layers,
        root=(unit("root", [model.table_shape, (1, model.hidden), model.table_shape]),),
    )


def llama_passages(
    model: Llama,
    *,
    rows: int,
    tokens: int,
    checkpointing: Checkpointing,
    loss_chunks: int = 1,
    keeps_logits: bool = False,
) -> list[Passage]:
    """Forward and backward of a microbatch of `rows` sequences. `loss_chunks`: the loss goes over so many parts.

    `keeps_logits`: in fp32, from the forward pass to the end of the backward pass.
    """
    tape = Tape()
    ranks = model.tensor_ranks
    tape.segment(("forward", "entry"))
    batch = tape.new(rows * tokens, INDEX), tape.new(rows * tokens, INDEX)
    state = _scattered(tape, _embedded(tape, Weight(*model.table_shape, BF16, trained=True), batch[0]), ranks)
    tape.bound(("backward", "entry"))
    for place in range(model.layers):
        tape.segment(("forward", place))
        state = _layer(tape, state, model, rows, tokens, checkpointing)
        tape.bound(("backward", place))
    tape.segment(("forward", "exit"))
    state = _norm(tape, state, Weight(1, model.hidden, BF16, trained=True))
    state = _gathered(tape, state, ranks)
    logits = _product(tape, state, Weight(*model.table_shape, BF16, trained=True))
    del state
    held = cast(tape, logits, FP32) if keeps_logits else None
    loss = _loss(tape, logits if held is None else held, loss_chunks)
    del logits
    tape.segment(("backward", "exit"))
    edge = loss.edge
    assert edge is not None
    backward(tape, edge, tape.new(1, FP32), tape.bounds)
    return passages_of(tape.events)


def _embedded(tape: Tape, table: Weight, ids: Tensor) -> Tensor:
    size = table.elements
    node = tape.node((table.tensor,), lambda _: (tape.new(size, BF16),), ids)
    return connected(tape.new(ids.elements * table.columns, BF16), node)


def _layer(tape: Tape, state: Tensor, model: Llama, rows: int, tokens: int, checkpointing: Checkpointing) -> Tensor:
    weights = {name: Weight(*shape, BF16, trained=True) for name, shape in model.layer_shapes.items()}

    def call(given: Tensor) -> Tensor:
        return _block(tape, given, weights, model, rows, tokens)

    if checkpointing == "none":
        return call(state)
    return (checkpoint_selectively if checkpointing == "selective" else checkpoint)(tape, call, state)


def _block(tape: Tape, state: Tensor, weights: dict[str, Weight], model: Llama, rows: int, tokens: int) -> Tensor:
    residual = state
    state = _gathered(tape, _norm(tape, state, weights["attention_norm"]), model.tensor_ranks)
    query, key, value = (_product(tape, state, weights[name]) for name in ("wq", "wk", "wv"))
    del state
    query, key = _turned(tape, query), _turned(tape, key)
    repeats = model.heads // model.key_heads
    key, value = _repeated(tape, key, repeats), _repeated(tape, value, repeats)
    made = _attention(tape, query, key, value, rows * model.heads // model.tensor_ranks * tokens, model.head)
    made = _scattered(tape, _product(tape, made, weights["wo"]), model.tensor_ranks)
    del query, key, value
    state = add(tape, residual, made)
    residual = state
    del made
    inner = _gathered(tape, _norm(tape, state, weights["ffn_norm"]), model.tensor_ranks)
    gate = elementwise(tape, _product(tape, inner, weights["w1"]), keeps="input")
    up = _product(tape, inner, weights["w3"])
    del inner
    joined = multiply(tape, gate, up)
    del gate, up
    made = _scattered(tape, _product(tape, joined, weights["w2"]), model.tensor_ranks)
    del joined
    return add(tape, residual, made)


def _norm(tape: Tape, state: Tensor, weight: Weight) -> Tensor:
    """`_norm(x.float()).type_as(x) * weight`, where `_norm` takes x twice."""
    wide = cast(tape, state, FP32)
    variance = mean(tape, elementwise(tape, cast(tape, state, FP32), keeps="input", temporaries=2), weight.columns)
    scale = elementwise(tape, shift(tape, variance), keeps="result", temporaries=2)
    made = multiply(tape, wide, scale)
    del wide
    return multiply(tape, cast(tape, made, BF16), weight.tensor)


def _product(tape: Tape, state: Tensor, weight: Weight) -> Tensor:
    """A linear module without bias: the gradient of the weight is made first."""
    count, item, matrix = state.elements // weight.columns, state.item, weight.tensor
    size, width = weight.elements, count * weight.columns

    def back(_: Gradients) -> Sequence[Tensor]:
        gradient = tape.new(size, item)
        return tape.new(width, item), gradient

    node = tape.node((state, matrix), back, matrix, state)
    return connected(kept(tape, count * weight.rows, item, is_product=True), node)


def _gathered(tape: Tape, state: Tensor, ranks: int) -> Tensor:
    """All tokens' rows; the gradient is scattered."""
    if ranks == 1:
        return state
    size, item = state.elements, state.item
    node = tape.node((state,), lambda _: (tape.new(size, item),))
    return connected(tape.new(size * ranks, item), node)


def _scattered(tape: Tape, state: Tensor, ranks: int) -> Tensor:
    """The sum over ranks, this rank's rows of it (a result that selective checkpointing keeps)."""
    if ranks == 1:
        return state
    size, item = state.elements, state.item
    node = tape.node((state,), lambda _: (tape.new(size, item),))
    return connected(kept(tape, size // ranks, item, is_product=False), node)


def _turned(tape: Tape, state: Tensor) -> Tensor:
    """Rotary positions: a product of complex fp32 numbers."""
    size = state.elements
    wide = cast(tape, state, FP32)
    node = tape.node((wide,), lambda _: (tape.new(size, FP32),))
    return cast(tape, connected(tape.new(size, FP32), node), BF16)


def _repeated(tape: Tape, state: Tensor, repeats: int) -> Tensor:
    if repeats == 1:
        return state
    size, item = state.elements, state.item
    node = tape.node((state,), lambda _: (tape.new(size, item),))
    return connected(tape.new(size * repeats, item), node)


def _attention(tape: Tape, query: Tensor, key: Tensor, value: Tensor, lines: int, head: int) -> Tensor:
    """Flash: the result and a sum for each line of scores are kept; the query's gradient is summed up in fp32."""
    sizes = [(one.elements, one.item) for one in (query, key, value)]
    padded = -(-lines // FLASH_ROWS) * FLASH_ROWS

    def back(_: Gradients) -> Sequence[Tensor]:
        made = [tape.new(*size) for size in sizes]
        tape.scratch(padded * head * FP32, padded * FP32)
        return made

    node = tape.node((query, key, value), back, query, key, value)
    made = connected(kept(tape, query.elements, query.item, is_product=False), node)
    sums = kept(tape, lines, FP32, is_product=False)
    tape.keep(node, made, sums)
    return made


def _loss(tape: Tape, logits: Tensor, chunks: int) -> Tensor:
    if chunks == 1:
        return _cross_entropy(tape, logits)
    parts = split(tape, logits, [logits.elements // chunks] * chunks)
    total = _cross_entropy(tape, parts[0])
    for part in parts[1:]:
        total = add(tape, total, _cross_entropy(tape, part))
    return total


def _cross_entropy(tape: Tape, logits: Tensor) -> Tensor:
    """Of the logits in fp32: the logarithms of the probabilities are kept."""
    size, wide = logits.elements, cast(tape, logits, FP32)
    node = tape.node((wide,), lambda _: (tape.new(size, FP32),))
    chances = connected(tape.new(size, FP32), node)
    tape.keep(node, chances)
    node = tape.node((chances,), lambda _: (tape.new(size, FP32),), chances)
    return connected(tape.new(1, FP32), node)
