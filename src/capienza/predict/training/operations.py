"""PyTorch's operations as far as they hold memory: what each makes, keeps for its gradient, and makes for it.

What is kept follows tools/autograd/derivatives.yaml (torch 2.13), what a gradient takes the functions it names, in
their order. A result is as wide as the wider of its inputs, and a gradient goes back in the format of the input.
"""

from __future__ import annotations

from collections.abc import Sequence

from capienza.predict.training.parallel.selective import kept
from capienza.predict.training.tape import Gradients, Kept, Results, Spread, Tape, Tensor, Weight, connected

FP32 = 4


def cast(tape: Tape, rows: Tensor, item: int) -> Tensor:
    """`rows.to(dtype)`: nothing where it has that format."""
    if rows.item == item:
        return rows
    elements, before = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(elements, before),))
    return connected(tape.new(elements, item), node)


def copy(tape: Tape, rows: Tensor) -> Tensor:
    """`rows.clone()`: its gradient is the result's."""
    node = tape.node((rows,), lambda gradients: (gradients[0],))
    return connected(tape.new(rows.elements, rows.item), node)


def as_rows(tape: Tape, rows: Tensor) -> Tensor:
    """A view whose gradient comes back in another order and has to be copied (heads to rows)."""
    elements, item = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(elements, item),))
    return connected(Tensor(elements, item, rows.block), node) if node is not None else rows


def elementwise(tape: Tape, rows: Tensor, *, keeps: str, temporaries: int = 0) -> Tensor:
    """A function of each element that keeps its `input`, its `result`, or nothing.

    `temporaries` of the same size are made for the gradient before it (pow: the power, and that times the exponent).
    """
    elements, item = rows.elements, rows.item

    def back(_: Gradients) -> Results:
        held = [tape.new(elements, item) for _ in range(temporaries)] if temporaries else None
        made = tape.new(elements, item)
        del held
        return (made,)

    node = tape.node((rows,), back, *((rows,) if keeps == "input" else ()))
    made = connected(tape.new(elements, item), node)
    if keeps == "result":
        tape.keep(node, made)
    return made


def power(tape: Tape, rows: Tensor) -> Tensor:
    """`pow`, which autocast takes to fp32."""
    return elementwise(tape, cast(tape, rows, FP32) if tape.autocast else rows, keeps="input", temporaries=2)


def mean(tape: Tape, rows: Tensor, width: int) -> Tensor:
    """The mean of each row."""
    elements, item = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(elements, item),))
    return connected(tape.new(elements // width, item), node)


def add(tape: Tape, left: Tensor, right: Tensor) -> Tensor:
    """A sum; the smaller of two is spread over the larger."""
    item, elements = max(left.item, right.item), max(left.elements, right.elements)
    sizes = [(one.elements, one.item, one.edge is not None) for one in (left, right)]

    def back(gradients: Gradients) -> Results:
        gradient = gradients[0]
        assert gradient is not None
        return [_back_to(gradient, count, width, 0) if wanted else None for count, width, wanted in sizes]

    node = tape.node((left, right), back)
    return connected(tape.new(elements, item), node)


def add_over(tape: Tape, left: Tensor, right: Tensor) -> Tensor:
    """A sum that is written over the first: the gradient goes to both."""
    node = tape.node((left, right), lambda gradients: (gradients[0], gradients[0]))
    return connected(Tensor(left.elements, left.item, left.block), node) if node is not None else left


def _back_to(gradient: Tensor, elements: int, item: int, rows: int) -> Tensor | Spread:
    """A gradient in the shape and the format of its input."""
    if elements == gradient.elements and item == gradient.item:
        return gradient
    return Spread(gradient, elements, rows, item)


def shift(tape: Tape, rows: Tensor) -> Tensor:
    """A constant added: the gradient goes through."""
    return copy(tape, rows)


def multiply(tape: Tape, left: Tensor, right: Tensor, *, is_weight: bool = False) -> Tensor:
    """A product; the smaller of two is spread over the larger, and its gradient summed: over all rows of a weight's."""
    item, elements = max(left.item, right.item), max(left.elements, right.elements)
    sizes = [(one.elements, one.item, one.edge is not None) for one in (left, right)]

    def back(_: Gradients) -> Results:
        made: list[Tensor | Spread | None] = [None, None]
        for place in (1, 0):
            count, width, wanted = sizes[place]
            if wanted:
                gradient = tape.new(elements, item)
                made[place] = _back_to(gradient, count, width, elements // count if is_weight else 0)
        return made

    node = tape.node(
        (left, right),
        back,
        left if right.edge is not None else None,
        right if left.edge is not None else None,
    )
    return connected(tape.new(elements, item), node)


def scale(tape: Tape, rows: Tensor) -> Tensor:
    """A product with a number."""
    return elementwise(tape, rows, keeps="nothing")


def part(tape: Tape, rows: Tensor, elements: int) -> Tensor:
    """A slice: a view; its gradient is as large as all."""
    whole, item = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(whole, item),))
    return connected(Tensor(elements, item, rows.block), node)


def split(tape: Tape, rows: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Several views of all that there is; their gradients meet in one tensor."""
    whole, item = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(whole, item),), results=len(sizes))
    return [connected(Tensor(size, item, rows.block), node, place) for place, size in enumerate(sizes)]


def join(tape: Tape, *parts: Tensor) -> Tensor:
    """`cat`: the gradients are views of the result's."""
    sizes = [(one.elements, one.item, one.edge is not None) for one in parts]

    def back(gradients: Gradients) -> Results:
        gradient = gradients[0]
        assert gradient is not None
        return [Tensor(count, item, gradient.block) if wanted else None for count, item, wanted in sizes]

    node = tape.node(parts, back)
    return connected(tape.new(sum(one.elements for one in parts), parts[0].item), node)


def dropout(tape: Tape, rows: Tensor) -> Tensor:
    """A result and a mask of one byte an element, which is kept. Nothing while the model is not trained."""
    if not tape.is_training:
        return rows
    elements, item = rows.elements, rows.item
    node = tape.node((rows,), lambda _: (tape.new(elements, item),))
    made, mask = connected(tape.new(elements, item), node), tape.new(elements, 1)
    tape.keep(node, mask)
    return made


def matmul(tape: Tape, rows: Tensor, weight: Tensor, columns: int, inner: int, bias: Tensor | None = None) -> Tensor:
    """`rows` of `inner` elements times a matrix with `columns` results, and a bias. All in one format."""
    count, item = rows.elements // inner, rows.item
    wants = [one is not None and one.edge is not None for one in (rows, weight, bias)]

    def back(gradients: Gradients) -> Results:
        made: list[Tensor | Spread | None] = [None, None, None]
        for place, size in ((1, columns * inner), (0, count * inner)):
            if wants[place]:
                made[place] = tape.new(size, item)
        if wants[2] and gradients[0] is not None:
            made[2] = Spread(gradients[0], columns, count, item)
        return made

    node = tape.node((rows, weight, bias), back, weight if wants[0] else None, rows if wants[1] else None)
    return connected(kept(tape, count * columns, item, is_product=True), node)


def weight_cast(tape: Tape, weight: Weight, item: int) -> Tensor:
    """A weight in the format of a product: under autocast the copy of a trained one is remembered."""
    if weight.item == item:
        return weight.tensor
    if tape.casts is not None and weight in tape.casts:
        return tape.casts[weight]
    made = cast(tape, weight.tensor, item)
    if tape.casts is not None and weight.leaf is not None:
        tape.casts[weight] = made
    return made


def in_place(tape: Tape, rows: Tensor, *kept: Tensor | None) -> Tensor:
    """A kernel that writes over its input, and over the gradient: nothing is made."""
    node = tape.node((rows,), lambda gradients: (gradients[0],), *kept)
    return connected(Tensor(rows.elements, rows.item, rows.block), node) if node is not None else rows


def fused_product(tape: Tape, gate: Tensor, up: Tensor) -> Tensor:
    """Activation and product in one kernel: both inputs are kept, and the gradients written over them."""
    sizes = [(one.elements, one.item) for one in (gate, up)]

    def back(_: Gradients, kept: Kept = None) -> Results:
        assert kept is not None
        return [Tensor(count, item, block) for (count, item), block in zip(sizes, kept, strict=True)]

    node = tape.node((gate, up), back, gate, up)
    if node is not None:
        node.takes_kept = True
    return connected(tape.new(gate.elements, gate.item), node)
