"""How an optimizer treats the weights of a rank: what is stored, what it adds."""

from __future__ import annotations

import msgspec


class Upkeep(msgspec.Struct, frozen=True):
    """Bytes for each trained element, beside weight and gradient.

    `state_bytes`: the optimizer's states; `step_bytes`: what a step makes for its own length.
    """

    state_bytes: float
    step_bytes: float = 0.0


def adam(element_bytes: int, is_foreach: bool) -> Upkeep:
    """AdamW of PyTorch: two states in the format of the parameter; foreach makes square roots as large as it."""
    return Upkeep(2.0 * element_bytes, float(element_bytes) if is_foreach else 0.0)
