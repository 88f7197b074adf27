"""From the last rows to the loss, by implementation and release.

full          transformers: logits in fp32, up to 4.45 under the logits' own name, so that the first copy goes; up to
              about 4.48 a shifted copy more; `cross_entropy` keeps the logarithms of the probabilities (loss_utils.py)
              a sequence alone is in one piece without its last row: the shifted view of it is not copied
              a normalised head (Baichuan2's NormHead) makes its rows anew, of length one: in fp32 under autocast, as
              the lengths are, then in the weight's format for the product (modeling_baichuan.py; swift 1.x, model.py)
fused         the same logits, and one kernel that writes their gradient over them (unsloth, fms-acceleration)
fused_linear  the head runs over pieces of rows, and each piece's gradient is there before the next: as many pieces as
              the vocabulary is wider than the rows, of a power of 2 (Liger-Kernel, ops/fused_linear_cross_entropy.py)
chunked       the head, or the loss, over pieces of rows, each with its own graph
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.predict.training.blocks.linear import linear
from capienza.predict.training.blocks.modules import Linear
from capienza.predict.training.operations import FP32, cast, elementwise, join, matmul, part, scale, split
from capienza.predict.training.tape import Gradients, Results, Tape, Tensor, connected


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The last product and the loss. `widens_first`: the fp32 logits take the name of the first ones.

    `piece_rows` and `is_whole` are LitGPT's (`litgpt`).
    """

    module: Linear
    kind: str
    rows: int
    widens: bool
    widens_first: bool
    shifts: bool
    pieces: int
    scales: bool
    caps: bool
    widens_outputs: bool
    keeps_outputs: bool
    sequences: int = 1
    is_normalised: bool = False
    piece_rows: int = 0
    is_whole: bool = False


def loss_of(tape: Tape, rows: Tensor, head: Head) -> tuple[Tensor, Tensor | None]:
    """The loss, and the logits, which the model brings out with it."""
    if head.kind == "fused_linear":
        return _fused_linear(tape, rows, head), None
    logits = _logits(tape, rows, head)
    if head.widens and head.widens_first:
        logits = cast(tape, logits, FP32)
    return _whole(tape, logits, head), logits


def outputs_of(tape: Tape, logits: Tensor, head: Head, converted: int) -> Tensor | None:
    """What of the logits outlives the forward pass, when the model has returned.

    `converted`: elements of a cache among the outputs. Both are taken to fp32 beside what they were.
    """
    outputs = cast(tape, logits, FP32) if head.widens_outputs else logits
    if converted:
        tape.scratch(converted * FP32)
    return outputs if head.keeps_outputs else None


def _logits(tape: Tape, rows: Tensor, head: Head) -> Tensor:
    logits = _of_normalised(tape, rows, head.module) if head.is_normalised else linear(tape, rows, head.module)
    if head.scales:
        logits = scale(tape, logits)
    if head.caps:
        logits = scale(tape, logits)
        logits = elementwise(tape, logits, keeps="result")
        logits = scale(tape, logits)
    return logits


def _of_normalised(tape: Tape, rows: Tensor, module: Linear) -> Tensor:
    """The product with the head's rows over their lengths. The head is frozen: no gradient goes to it."""
    weight = module.weight
    wide = tape.new(weight.elements, FP32 if tape.autocast else weight.item)
    matrix = cast(tape, wide, weight.item)
    del wide
    return matmul(tape, cast(tape, rows, weight.item), matrix, weight.rows, weight.columns)


def _whole(tape: Tape, logits: Tensor, head: Head) -> Tensor:
    if head.widens:
        logits = cast(tape, logits, FP32)
    seen = _shifted(tape, logits, head.sequences) if head.shifts else logits
    return divided(tape, (fused if head.kind == "fused" else cross_entropy)(tape, seen, head.rows))


def _shifted(tape: Tape, logits: Tensor, sequences: int) -> Tensor:
    """All but the last row of each sequence, in one piece: the gradient goes through the slice."""
    cut = part(tape, logits, logits.elements)
    if sequences == 1:
        return cut
    elements, item = cut.elements, cut.item
    node = tape.node((cut,), lambda gradients: (gradients[0],))
    return connected(tape.new(elements, item), node)


def cross_entropy(tape: Tape, logits: Tensor, rows: int) -> Tensor:
    """`torch.nn.functional.cross_entropy`: the logarithm of the probabilities is kept, in the logits' own format.

    Autocast on CUDA takes what `nll_loss` reads to fp32, and no more: `log_softmax` is asked for by its format.
    """
    count, item = logits.elements, logits.item
    labels = tape.new(rows + 1, 8)
    node = tape.node((logits,), lambda _: (tape.new(count, item),))
    chances = connected(tape.new(count, item), node)
    tape.keep(node, chances)
    if tape.autocast:
        chances = cast(tape, chances, FP32)
    read = chances.item
    node = tape.node((chances,), lambda _: (tape.new(count, read),), chances, labels)
    loss = connected(tape.new(1, FP32), node)
    weight = tape.new(1, FP32)
    tape.keep(node, weight)
    return loss


def fused(tape: Tape, logits: Tensor, rows: int) -> Tensor:
    """One kernel that keeps a number a row, and writes the gradient over the logits. Autocast does not know of it."""
    sums = tape.new(rows, FP32)
    block, count, item = logits.block, logits.elements, logits.item
    held = [block]
    del block

    def back(_: Gradients) -> Results:
        return (Tensor(count, item, held.pop()),)

    node = tape.node((logits,), back, sums)
    if node is None:
        held.clear()
    return connected(tape.new(1, FP32), node)


def divided(tape: Tape, loss: Tensor) -> Tensor:
    """The sum over the number of targets."""
    node = tape.node((loss,), lambda _: (tape.new(1, FP32),))
    return connected(tape.new(1, FP32), node)


def _fused_linear(tape: Tape, rows: Tensor, head: Head) -> Tensor:
    """The gradients of rows and weight are made in the forward pass, and kept."""
    weight = head.module.weight
    width = weight.columns
    count = head.rows
    size = _piece(count, weight.rows, width)
    item = tape.autocast or weight.item
    cut = cast(tape, rows, item)
    wants_weight = weight.leaf is not None and tape.grad
    of_rows = tape.new(cut.elements, cut.item) if cut.edge is not None else None
    # In fp32 where the weight is in half (accumulated over the pieces), as the weight is otherwise.
    of_weight = tape.new(weight.elements, weight.item) if wants_weight else None
    numbers = tape.new(count, FP32)
    logits = tape.new(size * weight.rows, item)
    if wants_weight:
        tape.scratch(weight.elements * item)
    else:
        tape.scratch(size * width * item)
    del logits, numbers
    held = [of_rows, of_weight]

    def back(_: Gradients) -> Results:
        made = list(held)
        held.clear()
        return made

    node = tape.node((cut, weight.tensor), back)
    if node is None:
        held.clear()
    return connected(tape.new(1, FP32), node)


def _piece(rows: int, vocabulary: int, width: int) -> int:
    """Rows whose logits are about as large as all that goes in, a power of two."""
    each = -(-rows // -(-vocabulary // width))
    return min(1 << (each - 1).bit_length(), rows)


def pieces_of(tape: Tape, rows: Tensor, head: Head) -> list[Tensor]:
    """The logits of each piece of a chunked loss."""
    width = head.module.weight.columns
    parts = split(tape, rows, [size * width for size in _sizes(head.rows, head.pieces)])
    return [_logits(tape, one, head) for one in parts]


def chunked(tape: Tape, logits: Sequence[Tensor], head: Head) -> Tensor:
    """The loss of each piece. The logits of all are there until the last is made; the graph keeps what each needs."""
    losses = []
    for piece in logits:
        one = cast(tape, piece, FP32) if head.widens else piece
        losses.append(cross_entropy(tape, one, one.elements // head.module.weight.rows))
        del one
    return divided(tape, join(tape, *losses))


def _sizes(rows: int, pieces: int) -> list[int]:
    each = -(-rows // max(pieces, 1))
    return [min(each, rows - start) for start in range(0, rows, each)]
