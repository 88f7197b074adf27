"""What a rank holds at the moments of a step, apart from activations and what the program holds besides weights."""

from __future__ import annotations

import msgspec


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that are alive together on one rank.

    `parameters`, `gradients` and `states` are this rank's own part. `gathered` are weights and gradients of whole
    units, which the rank holds for a while; `communication` are buffers that collectives read or write beside them;
    `transient` is what an optimizer step makes for its own length.
    """

    parameters_bytes: int = 0
    gradients_bytes: int = 0
    states_bytes: int = 0
    gathered_bytes: int = 0
    communication_bytes: int = 0
    transient_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """All of it: parts of one counter at one moment."""
        return (
            self.parameters_bytes + self.gradients_bytes + self.states_bytes
            + self.gathered_bytes + self.communication_bytes + self.transient_bytes
        )  # fmt: skip


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The moments of a step that count, once the optimizer has its states.

    forward: a layer is gathered, activations of the layers before it are alive. loss: all activations are alive, no
    layer is gathered. backward: one moment for each layer, in the order of the backward pass (the last layer first),
    when its gradients are there; activations of the layers before it are alive. root: no activation is alive, and the
    gradients of what no layer holds are reduced. optimizer: the step. after: until the next forward pass begins.
    """

    forward: Moment
    loss: Moment
    backward: tuple[Moment, ...]
    root: Moment
    optimizer: Moment
    after: Moment
