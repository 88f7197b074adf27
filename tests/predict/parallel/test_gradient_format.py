"""Gradients of FSDP2 are reduced in one format and kept in that of the parameter."""

from __future__ import annotations

from pathlib import Path

from capienza.api import size
from capienza.ledger.phase import Phase

CARDS = Path(__file__).parents[3] / "examples" / "cards"


def test_accelerates_fp32_parts_have_fp32_gradients() -> None:
    """accelerate takes parameters to fp32; what was summed in bf16 is brought back to it (foreach_reduce)."""
    ledger = size(CARDS / "fsdp2-llama-3.1-8b.yaml").ledger
    (found,) = (
        entry
        for entry in ledger.on("gpu:0")
        if entry.name == "gradients" and Phase.OPTIMIZER_STEP_STEADY in entry.phases
    )
    assert found.amount is not None
    assert abs(found.amount.expected - 4 * 8_030_261_248 // 4) < 2**20
