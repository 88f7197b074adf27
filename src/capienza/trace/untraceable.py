"""What is known to have no form without data, and what to do instead."""

from __future__ import annotations

from capienza.errors import Template, template

KNOWN: tuple[tuple[str, Template], ...] = (
    (
        "sparse",
        template(
            "trace.stopped-sparse",
            "the program stopped{where} at {op}: sparse tensors cannot be traced, as their size depends on values",
            "trace it with dense tensors, an embedding with sparse=False: that holds at least as much",
        ),
    ),
    (
        "nested",
        template(
            "trace.stopped-nested",
            "the program stopped{where} at {op}: nested tensors cannot be traced, as their size depends on values",
            "trace it with padded rows: that holds at least as much",
        ),
    ),
    (
        "ctc_loss",
        template(
            "trace.stopped-ctc",
            "the program stopped{where} at {op}: which kernel runs ctc_loss depends on values",
            "trace it with another loss on the same log-probabilities; what ctc_loss keeps is then missing",
        ),
    ),
    (
        "_thnn_fused_",
        template(
            "trace.stopped-cell",
            "the program stopped{where} at {op}: the fused kernel of a recurrent cell cannot be traced",
            "use the layer (GRU, LSTM) in place of its cell",
        ),
    ),
)
"""By a part of the operation's name."""


def known(op: str) -> Template | None:
    """What is said of an operation at which a program stopped."""
    return next((told for part, told in KNOWN if part in op), None)
