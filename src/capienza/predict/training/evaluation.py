"""Logits that an evaluation keeps on the GPU until its end.

Legend: V vocabulary, T tokens of a row, s bytes of a number of the logits, x = V T s bytes of one row; R rows that wait
(all, or those of the passes between two moves to main memory), m rows of a pass, P what one pass holds.
    while the last pass runs           (R - m) x + P
    while its logits are joined        (R - m) x + R x       torch.cat makes one tensor of what is kept and what is new
    entry                              the larger one, less P
Source: transformers 5.24 trainer.py evaluation_loop, trainer_pt_utils.py EvalLoopContainer.add and nested_concat.
"""

from __future__ import annotations

from capienza.ledger.entry import Entry
from capienza.ledger.phase import Phase
from capienza.predict.training import texts
from capienza.predict.training.entries import expected, unknown
from capienza.predict.training.trained import BYTES
from capienza.recipe.recipe import Recipe

NAME, PHASES = "kept_logits", (Phase.EVAL,)


def kept_logits(vocabulary: int, recipe: Recipe, pass_bytes: int, device: str) -> Entry:
    """What is kept beside a pass of `pass_bytes`; unknown where the card does not say how many rows there are."""
    asked = recipe.evaluation
    waiting = None if asked.offload_steps is None else asked.offload_steps * asked.microbatch
    rows = min(one for one in (asked.rows, waiting) if one is not None) if (asked.rows or waiting) else None
    if rows is None:
        return unknown(NAME, PHASES, device, ("training.eval_rows",))
    size = BYTES["fp32" if recipe.precision.widens_outputs else recipe.precision.autocast or recipe.precision.base]
    row = vocabulary * recipe.tokens * size
    last = min(asked.microbatch, rows)
    held = (rows - last) * row
    joined = held + rows * row if rows > last else rows * row
    total = max(held + pass_bytes, joined) - pass_bytes
    formula = texts.KEPT_LOGITS(rows=rows, row=row, total=total)
    return expected(NAME, PHASES, device, total, formula, "transformers trainer_pt_utils.py (EvalLoopContainer)")
