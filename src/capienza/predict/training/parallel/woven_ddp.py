"""DistributedDataParallel around a program: buckets beside the gradients, as in `ddp`."""

from __future__ import annotations

from collections.abc import Sequence

from capienza.predict.training.parallel.passage import Passage
from capienza.predict.training.parallel.program import ADAPTERS, BUFFERS, WEIGHTS, Program
from capienza.predict.training.parallel.states import Upkeep
from capienza.predict.training.parallel.units import Model, Weight
from capienza.predict.training.parallel.woven import weave


def ddp_program(
    passages: Sequence[Passage],
    model: Model,
    upkeep: Upkeep,
    *,
    workspace_bytes: int,
    is_bucket_view: bool = False,
    microbatches: int = 1,
    steps: int = 2,
    evaluation: Sequence[Passage] = (),
) -> Program:
    """So many steps of one rank; gradients of all microbatches but the last are kept (no_sync)."""
    return weave(
        passages,
        Buckets(model, upkeep, is_bucket_view=is_bucket_view),
        workspace_bytes=workspace_bytes,
        microbatches=microbatches,
        accumulates_whole=True,
        steps=steps,
        evaluation=evaluation,
    )


class Buckets:
    """The reducer: nothing is sharded; every gradient has its place in a bucket."""

    keeps_gradients = False

    def __init__(self, model: Model, upkeep: Upkeep, *, is_bucket_view: bool) -> None:
        self.program, self.upkeep, self.is_bucket_view = Program(), upkeep, is_bucket_view
        self.weights = [weight for unit in model.units for weight in unit.weights]
        self.gradients: list[int] = []
        self.kept: dict[int, Sequence[int]] = {}

    def load(self) -> None:
        """All weights, and as much as their gradients."""
        has_frozen = any(not weight.is_trained for weight in self.weights)
        for weight in self.weights:
            purpose = ADAPTERS if has_frozen and weight.is_trained else WEIGHTS
            self.program.take(weight.elements * weight.element_bytes, purpose=purpose)
        for weight in self._trained():
            self.program.take(weight.elements * weight.element_bytes, purpose=BUFFERS)

    def unshard_in_forward(self, unit: int) -> None:
        """Nothing is gathered."""

    def reshard_in_forward(self, unit: int) -> None:
        """Nothing is freed."""

    def end_forward(self) -> None:
        """Nothing is held."""

    def gather_last(self) -> None:
        """Nothing is gathered."""

    def unshard_in_backward(self, unit: int) -> None:
        """Nothing is gathered."""

    def reduce(self, unit: int, gradients: Sequence[int]) -> None:
        """Gradients stay beside the buckets, or are views of them."""
        if self.is_bucket_view or unit in self.kept:
            self.program.give(*gradients)
        else:
            self.gradients += gradients
        self.gradients += self.kept.pop(unit, ())

    def leave(self, unit: int, gradients: Sequence[int]) -> None:
        """Gradients stay; later ones are added to them."""
        if self.is_bucket_view or unit in self.kept:
            self.program.give(*gradients)
        else:
            self.kept[unit] = gradients

    def end_backward(self) -> None:
        """Nothing is waited for."""

    def states(self) -> list[int]:
        """Sizes of each weight's."""
        made = [round(weight.elements * self.upkeep.state_bytes) for weight in self._trained()]
        return [size for size in made if size]

    def transients(self) -> list[int]:
        """What a step makes for each weight."""
        return self.upkeep.transients(self.states())

    def zero(self) -> None:
        """Gradients go, buckets stay."""
        self.program.give(*self.gradients)
        self.gradients.clear()

    def _trained(self) -> list[Weight]:
        return [weight for weight in self.weights if weight.is_trained]
