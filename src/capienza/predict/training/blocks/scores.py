"""Log-probabilities of tokens, as TRL makes them of the last rows, by release.

Legend: n sequences of t scored tokens each, V vocabulary; the logits have the format in which they leave the model.
    whole    up to 0.13: the logarithms of all probabilities at once, kept
    rows     from 0.14: sequence by sequence. In 16 bits the logarithms are kept; in fp32 the sum of the exponentials
             is taken, and the logits themselves are kept (trainer/utils.py, selective_log_softmax)
    kernel   1.14: one kernel that keeps the logits and makes their gradient (kernels/logprob_entropy.py)
    tiles    from 1.15: the head runs over tiles of 4096 tokens x 32768 columns; gradients of rows and head are summed
             in fp32 (kernels/chunked_logprob.py)
"""

from __future__ import annotations

from typing import Literal

import msgspec

from capienza.predict.training.blocks.linear import linear
from capienza.predict.training.blocks.loss import Head
from capienza.predict.training.operations import FP32, add, cast, copy, elementwise, join, part, scale, split
from capienza.predict.training.tape import WORKING, Gradients, Results, Tape, Tensor, connected

TILE_TOKENS, TILE_COLUMNS = 4096, 32768
TILE_NUMBERS = 7
"""Numbers in fp32 that the tiles' kernel keeps of each token while it runs."""
INDEX_BYTES = 8


class Scoring(msgspec.Struct, frozen=True, kw_only=True):
    """`sequences` of `tokens` rows each, of which the last `scored` have a token that is scored.

    `copies_shift`: the logits without the last row are copied. `divides`: they are divided by a temperature, into new
    memory or in place. `entropy_rows` are taken at a time for the entropy, 0 for none. `widens`: logits leave the model
    in fp32. `slices`: only the rows that are scored, and one more, go through the head.
    """

    kind: Literal["whole", "rows", "kernel", "tiles"]
    sequences: int
    tokens: int
    scored: int
    widens: bool = False
    slices: bool = False
    copies_shift: bool = False
    divides: Literal["no", "anew", "in_place"] = "no"
    entropy_rows: int = 0

    @property
    def count(self) -> int:
        """Scored tokens of all sequences."""
        return self.sequences * self.scored


def logits_of(tape: Tape, rows: Tensor, head: Head, scoring: Scoring) -> Tensor:
    """All logits as they leave the model."""
    width = head.module.weight.columns
    if scoring.slices and scoring.scored + 1 < scoring.tokens:
        rows = part(tape, rows, scoring.sequences * (scoring.scored + 1) * width)
        if scoring.sequences > 1:
            rows = copy(tape, rows)
    logits = linear(tape, rows, head.module)
    if head.scales:
        logits = scale(tape, logits)
    if head.caps:
        logits = scale(tape, elementwise(tape, scale(tape, logits), keeps="result"))
    return logits


def scored(tape: Tape, logits: Tensor, vocabulary: int, scoring: Scoring) -> Tensor:
    """A number for each token of the logits that are `shifted`."""
    if scoring.kind == "whole":
        made = _picked(tape, _log_softmax(tape, logits, scoring), scoring.count)
    elif scoring.kind == "kernel":
        made = _kernel(tape, logits, scoring.count)
    else:
        made = _by_rows(tape, logits, scoring)
    if scoring.entropy_rows:
        entropies(tape, logits, vocabulary, scoring.entropy_rows, scoring)
    return made


def _log_softmax(tape: Tape, logits: Tensor, scoring: Scoring) -> Tensor:
    """Of all logits at once: the kernel wants rows in one piece."""
    made = elementwise(tape, logits, keeps="result")
    if scoring.sequences > 1:
        tape.scratch(logits.elements * logits.item)
    return made


def shifted(tape: Tape, logits: Tensor, vocabulary: int, scoring: Scoring) -> Tensor:
    """The logits that have a token to be scored, divided by the temperature."""
    whole = logits.elements
    wanted = scoring.count * vocabulary
    if wanted < whole:
        logits = part(tape, logits, wanted)
    if scoring.copies_shift:
        logits = copy(tape, logits)
    if scoring.divides == "anew":
        logits = scale(tape, logits)
    elif scoring.divides == "in_place":
        logits = _divided(tape, logits, whole)
    return logits


def _divided(tape: Tape, logits: Tensor, whole: int) -> Tensor:
    """A division written over a view: its gradient goes through copies of the whole, and of the view."""
    elements, item = logits.elements, logits.item

    def back(_: Gradients) -> Results:
        all_of = tape.new(whole, item)
        seen = tape.new(elements, item)
        made = tape.new(elements, item)
        del seen, made
        return (all_of,)

    node = tape.node((logits,), back)
    return connected(Tensor(elements, item, logits.block), node) if node is not None else logits


def entropies(tape: Tape, logits: Tensor, vocabulary: int, rows: int, scoring: Scoring) -> None:
    """The entropy of each row, so many at a time, without gradients: the logarithms, their powers and the product.

    A view of several sequences, with a row left out of each, is copied to lie in one piece.
    """
    size = min(rows * vocabulary, logits.elements)
    is_view = not scoring.copies_shift and scoring.divides != "anew" and scoring.sequences > 1
    whole = logits.elements if is_view else 0
    tape.scratch(whole * logits.item, *[size * logits.item] * 3)


def _by_rows(tape: Tape, logits: Tensor, scoring: Scoring) -> Tensor:
    each = logits.elements // scoring.sequences
    if logits.item == FP32:
        made = _picked(tape, logits, scoring.count)
        sums = join(tape, *[_log_sum(tape, one, scoring.scored) for one in _cut(tape, logits, each, scoring)])
        return add(tape, made, sums)
    found = []
    for one in _cut(tape, logits, each, scoring):
        chances = elementwise(tape, one, keeps="result")
        found.append(_picked(tape, chances, scoring.scored))
        del chances
    return join(tape, *found)


def _cut(tape: Tape, logits: Tensor, each: int, scoring: Scoring) -> list[Tensor]:
    return split(tape, logits, [each] * scoring.sequences)


def _picked(tape: Tape, rows: Tensor, count: int) -> Tensor:
    """One element of each row; the gradient is all zeros but those."""
    elements, item = rows.elements, rows.item
    index = tape.new(count, INDEX_BYTES)
    node = tape.node((rows,), lambda _: (tape.new(elements, item),), index)
    return connected(tape.new(count, item), node)


def _log_sum(tape: Tape, rows: Tensor, count: int) -> Tensor:
    """`logsumexp` of each row: exponentials on the way there, on the way back the difference and its power as well."""
    elements, item = rows.elements, rows.item

    def back(_: Gradients) -> Results:
        held = tape.new(elements, item), tape.new(elements, item)
        made = tape.new(elements, item)
        del held
        return (made,)

    node = tape.node((rows,), back, rows)
    tape.scratch(elements * item)
    made = connected(tape.new(count, item), node)
    tape.keep(node, made)
    return made


def _kernel(tape: Tape, logits: Tensor, count: int) -> Tensor:
    elements, item = logits.elements, logits.item
    numbers = tape.new(2 * count, FP32)
    node = tape.node((logits,), lambda _: (tape.new(elements, item),), logits, numbers)
    return connected(tape.new(count, FP32), node)


def tiled(tape: Tape, rows: Tensor, head: Head, scoring: Scoring) -> Tensor:
    """The head and its scores tile by tile, forward and backward: what goes in is kept, and a number a token."""
    weight, count = head.module.weight, scoring.count
    width, item = weight.columns, tape.autocast or rows.item
    picked = _rows_of(tape, rows, count * width)
    wants_weight = weight.leaf is not None and tape.grad
    of_tile = min(weight.rows, TILE_COLUMNS) * width
    cast_bytes = item * of_tile if weight.item != item else 0

    def back(_: Gradients) -> Results:
        of_rows = tape.new(count * width, FP32)
        of_weight = tape.new(weight.elements, FP32) if wants_weight else None
        tape.scratch(min(count, TILE_TOKENS) * TILE_COLUMNS * item, cast_bytes)
        return cast(tape, of_rows, rows_item), cast(tape, of_weight, weight.item) if of_weight is not None else None

    rows_item = picked.item
    numbers = tape.new(count, FP32)
    node = tape.node((picked, weight.tensor), back, picked, numbers)
    tape.scratch(TILE_NUMBERS * FP32 * count, min(count, TILE_TOKENS) * TILE_COLUMNS * item, cast_bytes)
    return connected(tape.new(count, FP32), node)


def _rows_of(tape: Tape, rows: Tensor, elements: int) -> Tensor:
    """Rows that have a token to be scored, copied together; their gradient is put back into zeros."""
    item = rows.item
    cut = part(tape, rows, elements)
    node = tape.node((cut,), lambda _: (tape.new(elements, item),))
    del cut
    return connected(tape.new(elements, item), node)


def masked_mean(tape: Tape, logits: Tensor) -> None:
    """The mean over the scored logits of half of the sequences, for the log: a mask picks them, into a copy."""
    kind, tape.kind = tape.kind, WORKING
    tape.scratch(logits.elements // 2 * logits.item)
    tape.kind = kind
