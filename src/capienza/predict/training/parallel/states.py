"""How an optimizer treats the weights of a rank: what is stored, what it adds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Upkeep(msgspec.Struct, frozen=True):
    """Bytes for each trained element, beside weight and gradient.

    `state_bytes`: the optimizer's states; `step_bytes`: what a step makes for its own length; `single_bytes`: what it
    makes once, for the largest weight.
    """

    state_bytes: float
    step_bytes: float = 0.0
    single_bytes: int = 0

    def transients(self, states: Sequence[int]) -> list[int]:
        """Sizes of what a step makes, by the sizes of the states that it has."""
        if self.step_bytes and self.state_bytes:
            return [round(size / self.state_bytes * self.step_bytes) for size in states]
        return [self.single_bytes] if self.single_bytes and states else []


def adam(element_bytes: int, is_foreach: bool) -> Upkeep:
    """AdamW of PyTorch: two states in the format of the parameter; foreach makes square roots as large as it."""
    return Upkeep(2.0 * element_bytes, float(element_bytes) if is_foreach else 0.0)
