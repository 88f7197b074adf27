"""How an optimizer treats the weights of a rank: what is stored, what it adds."""

from __future__ import annotations

import msgspec


class Upkeep(msgspec.Struct, frozen=True):
    """Per trained element, beside weight and gradient: `state_bytes` of the optimizer's states (Adam in the format of
    its parameter: 2 x its bytes), and `step_bytes` that a step makes for its own length (foreach: one more parameter).
    """

    state_bytes: float
    step_bytes: float = 0.0


def adam(element_bytes: int, is_foreach: bool) -> Upkeep:
    """torch's AdamW: two states in the format of the parameter; foreach makes a list of square roots as large as it."""
    return Upkeep(2.0 * element_bytes, float(element_bytes) if is_foreach else 0.0)
