"""Checkpoints that wait in main memory: a layer's input is copied there, and back for its second forward pass.

The call runs without a graph, and again with one inside the backward pass, as a reentrant checkpoint does; between the
two nothing of it is on the GPU. The copies use pinned memory and the same stream: no block outlives its tensor.
Source: unsloth_zoo/gradient_checkpointing.py, Unsloth_Offloaded_Gradient_Checkpointer (2024 and 2025).
"""

from __future__ import annotations

from collections.abc import Callable

from capienza.predict.training.tape import WORKING, Gradients, Leaf, Results, Tape, Tensor, backward, connected


def checkpoint_offloaded(tape: Tape, call: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Run a call of which nothing is kept on the GPU, not even what goes in."""
    if not tape.grad:
        return call(rows)
    elements, item = rows.elements, rows.item

    def back(gradients: Gradients) -> Results:
        leaf, kind = Leaf(), tape.kind
        tape.kind = WORKING
        entry = tape.new(elements, item)
        entry.edge = (leaf, 0)
        with tape.autocasting():
            out = call(entry)
        tape.kind = kind
        edge, gradient = out.edge, gradients[0]
        del out, entry
        if edge is not None and gradient is not None:
            backward(tape, edge, gradient)
        return (leaf.gradient,)

    with tape.no_grad():
        out = call(rows)
    return connected(out, tape.node((rows,), back))
