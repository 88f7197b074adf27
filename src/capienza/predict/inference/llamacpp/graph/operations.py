"""What the operations of ggml make: the shape of each result, and whether it has memory of its own.

Legend: a, b operands; weights come first in a product, with their row length equal to that of the other operand.
Source: ggml.c of llama.cpp at 0c1e57098, function by function of the same name.
"""

from __future__ import annotations

from capienza.predict.inference.llamacpp.graph.node import Node, Sizes4, row_size, strides

IN_PLACE = frozenset({
    "add", "add_id", "clamp", "div", "fill", "mul", "rms_norm", "rope", "scale", "soft_max", "sqr", "sub", "unary",
})  # fmt: skip
"""Operations that may write over an operand of the same layout (`ggml_op_can_inplace`)."""


def same(op: str, a: Node, *others: Node | None) -> Node:
    """A new tensor of the shape of the first operand."""
    return Node(op, a.ne, a.kind, (a, *others))


def product(weight: Node, b: Node) -> Node:
    """Matrix product."""
    return Node("mul_mat", (weight.ne[1], b.ne[1], b.ne[2], b.ne[3]), "fp32", (weight, b))


def expert_product(weight: Node, b: Node, chosen: Node) -> Node:
    """Product with the matrices of the chosen experts."""
    return Node("mul_mat_id", (weight.ne[1], chosen.ne[0], b.ne[2], 1), "fp32", (weight, b, chosen))


def take_rows(a: Node, rows: Node) -> Node:
    """The rows that a list of numbers names."""
    kind = "int32" if a.kind == "int32" else "fp32"
    return Node("get_rows", (a.ne[0], rows.ne[0], rows.ne[1], rows.ne[2]), kind, (a, rows))


def gated(a: Node, b: Node | None = None) -> Node:
    """Gate and other half, apart or in one tensor."""
    ne = a.ne if b is not None else (a.ne[0] // 2, *a.ne[1:])
    return Node("glu", ne, a.kind, (a, b))


def concat(a: Node, b: Node) -> Node:
    """One after the other along the rows."""
    return Node("concat", (a.ne[0] + b.ne[0], *a.ne[1:]), a.kind, (a, b))


def contiguous(a: Node, ne: Sizes4 | None = None) -> Node:
    """A copy without gaps."""
    return Node("cont", ne or a.ne, a.kind, (a,))


def reshape(a: Node, *ne: int) -> Node:
    """The same memory under other sizes."""
    return Node("reshape", four(ne), a.kind, (a,), view=a)


def view(a: Node, ne: tuple[int, ...], steps: tuple[int, ...]) -> Node:
    """A part of a tensor; `steps` are its strides after the first."""
    sizes = four(ne)
    nb = [a.nb[0], *steps]
    while len(nb) < 4:
        nb.append(nb[-1] * sizes[len(nb) - 1])
    return Node("view", sizes, a.kind, (a,), view=a, nb=(nb[0], nb[1], nb[2], nb[3]))


def vector_view(a: Node, count: int) -> Node:
    """A part of a tensor as one row."""
    return Node("view", (count, 1, 1, 1), a.kind, (a,), view=a, nb=strides((count, 1, 1, 1), a.kind))


def permute_middle(a: Node) -> Node:
    """The second and third dimension exchanged."""
    ne, nb = a.ne, a.nb
    exchanged = (nb[0], nb[2], nb[1], nb[3])
    return Node("permute", (ne[0], ne[2], ne[1], ne[3]), a.kind, (a,), view=a, nb=exchanged)


def transpose(a: Node) -> Node:
    """The first and second dimension exchanged."""
    ne, nb = a.ne, a.nb
    return Node("transpose", (ne[1], ne[0], *ne[2:]), a.kind, (a,), view=a, nb=(nb[1], nb[0], *nb[2:]))


def store_rows(target: Node, rows: Node, where: Node) -> Node:
    """Rows written into a tensor that exists."""
    return Node("set_rows", target.ne, target.kind, (rows, where, target), view=target, nb=target.nb)


def copy_into(a: Node, target: Node) -> Node:
    """A tensor written into one that exists."""
    return Node("cpy", target.ne, target.kind, (a, target), view=target, nb=target.nb)


def scaled_in_place(a: Node) -> Node:
    """A tensor multiplied where it stands."""
    return Node("scale", a.ne, a.kind, (a,), view=a, nb=a.nb)


def best(a: Node, count: int) -> Node:
    """The numbers of the largest elements of each row, after all of them have been sorted."""
    order = Node("argsort", a.ne, "int32", (a,))
    return view(order, (count, *a.ne[1:]), order.nb[1:])


def row_sums(a: Node) -> Node:
    """One number for each row."""
    return Node("sum_rows", (1, *a.ne[1:]), a.kind, (a,))


def flash_attention(query: Node, key: Node, value: Node, mask: Node, sinks: Node | None) -> Node:
    """Attention in one operation."""
    ne = (value.ne[0], query.ne[2], query.ne[1], query.ne[3])
    return Node("flash_attn_ext", ne, "fp32", (query, key, value, mask, sinks))


def convolution(history: Node, kernel: Node, tokens: int) -> Node:
    """The short convolution of a state-space layer."""
    return Node("ssm_conv", (kernel.ne[1], tokens, history.ne[2], 1), "fp32", (history, kernel))


def rotated(a: Node, rotation: Node) -> Node:
    """Rows multiplied by a small rotation matrix, as a quantised cache wants them."""
    width = rotation.ne[0]
    rows = a.count // width
    flat = reshape(a, width, rows) if a.is_contiguous else contiguous(a, (width, rows, 1, 1))
    return reshape(product(rotation, flat), *a.ne)


def four(ne: tuple[int, ...]) -> Sizes4:
    """Sizes with ones behind them."""
    one, two, three, last = (*ne, 1, 1, 1)[:4]
    return one, two, three, last


def packed_view(a: Node, width: int, rows: int, tokens: int) -> Node:
    """Heads out of a fused row: `rows` of `width` elements for each token."""
    return view(a, (width, rows, tokens), (row_size(a.kind, width), a.nb[1]))
