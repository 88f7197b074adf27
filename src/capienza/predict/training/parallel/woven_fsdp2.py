"""`fully_shard` around a program: its steps as events of the allocator, streams apart.

Legend as in `fsdp2`. Gathers run in a stream of their own, reductions in another: what they take is not used again by
the program. The first gather of a forward pass is the root's; the last layer's buffer is freed with the root's forward.

Source: torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py and _fsdp_param_group.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.predict.training.parallel.fsdp2 import RowPlan
from capienza.predict.training.parallel.passage import Passage
from capienza.predict.training.parallel.program import (
    ADAPTERS,
    BUFFERS,
    GATHER_STREAM,
    GATHERED,
    GRADIENTS,
    REDUCE_STREAM,
    WEIGHTS,
    WHOLE_GRADIENTS,
    Program,
)
from capienza.predict.training.parallel.units import Model, Unit, row_share
from capienza.predict.training.parallel.woven import ROOT, weave


def fsdp2_program(
    passages: Sequence[Passage],
    model: Model,
    plan: RowPlan,
    *,
    workspace_bytes: int,
    microbatches: int = 1,
    has_loss: bool = False,
    steps: int = 2,
    evaluation: Sequence[Passage] = (),
) -> Program:
    """So many steps of one rank. `has_loss`: see `weave`."""
    return weave(
        passages,
        RowSharder(model, plan),
        workspace_bytes=workspace_bytes,
        microbatches=microbatches,
        accumulates_whole=plan.accumulates_whole,
        has_loss=has_loss,
        steps=steps,
        evaluation=evaluation,
    )


class _Sizes(msgspec.Struct, frozen=True):
    """Of a unit: each weight's part, its whole copy, its optimizer states.

    Then the gather's input and output, and the reduce-scatter's.
    """

    parts: tuple[int, ...]
    trained: tuple[bool, ...]
    copies: tuple[int, ...]
    states: tuple[int, ...]
    cast: int
    gathered: int
    reduced: int
    reduced_part: int
    gradient_part: int


class RowSharder:
    """The hooks of `fully_shard`."""

    keeps_gradients = False

    def __init__(self, model: Model, plan: RowPlan) -> None:
        self.program, self.plan = Program(), plan
        known = {layer: _sizes(layer, plan) for layer in {*model.layers, model.root}}
        self.layers, self.root = [known[layer] for layer in model.layers], known[model.root]
        self.copies: dict[int, tuple[int, ...]] = {}
        self.ahead: dict[int, int] = {}
        self.last_gathered: int | None = None
        self.waiting_reduced: int | None = None
        self.own_gradients: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        self.has_frozen = any(not weight.is_trained for unit in model.units for weight in unit.weights)

    def sizes(self, unit: int) -> _Sizes:
        """Of a layer, or of the root."""
        return self.root if unit == ROOT else self.layers[unit]

    def load(self) -> None:
        """This rank's parts."""
        if self.plan.offloads:
            return
        for sizes in (self.root, *self.layers):
            for part, is_trained in zip(sizes.parts, sizes.trained, strict=True):
                self.program.take(part, purpose=ADAPTERS if self.has_frozen and is_trained else WEIGHTS)

    def unshard_in_forward(self, unit: int) -> None:
        """The buffer of the unit before is freed once this one is copied."""
        if not self.sizes(unit).copies:
            return
        gathered = self._gather(unit)
        self._copy(unit)
        if self.last_gathered is not None:
            self.program.give(self.last_gathered)
        self.last_gathered = gathered

    def reshard_in_forward(self, unit: int) -> None:
        """Not all layers are freed."""
        is_last = unit == len(self.layers) - 1
        if self.plan.reshards == "all" or (self.plan.reshards == "all_but_last" and not is_last):
            self._reshard(unit)

    def end_forward(self) -> None:
        """The last layer's buffer goes."""
        if self.last_gathered is not None:
            self.program.give(self.last_gathered)
            self.last_gathered = None

    def gather_last(self) -> None:
        """The last layer's buffer, unless the layer is still there."""
        last = len(self.layers) - 1
        if last >= 0 and last not in self.copies:
            self.ahead[last] = self._gather(last)

    def unshard_in_backward(self, unit: int) -> None:
        """Its buffer was filled ahead; the next one's is filled now."""
        if unit not in self.copies:
            gathered = self.ahead.pop(unit) if unit in self.ahead else self._gather(unit)
            self._copy(unit)
            self.program.give(gathered)
        if unit > 0 and unit - 1 not in self.copies:
            self.ahead[unit - 1] = self._gather(unit - 1)

    def reduce(self, unit: int, gradients: Sequence[int]) -> None:
        """The buffer of the reduction before goes first."""
        self._reshard(unit)
        self._end_reduction()
        sizes = self.sizes(unit)
        if not sizes.reduced:
            return
        self.waiting_reduced = self.program.take(sizes.reduced, purpose=BUFFERS)
        self.program.give(*gradients)
        if unit in self.kept:
            self.program.give(self.kept.pop(unit))
        made = self.program.take(sizes.reduced_part, REDUCE_STREAM, GRADIENTS)
        if sizes.gradient_part != sizes.reduced_part:
            # The sum is brought to the format that the parameter is kept in (foreach_reduce: orig_dtype).
            summed, made = made, self.program.take(sizes.gradient_part, REDUCE_STREAM, GRADIENTS)
            self.program.give(summed)
        if self.plan.offloads or self.own_gradients.setdefault(unit, made) != made:
            # It goes to main memory, or was added to that of the microbatches before.
            self.program.give(made)

    def leave(self, unit: int, gradients: Sequence[int]) -> None:
        """Whole gradients are kept in the format in which they will be reduced."""
        self._reshard(unit)
        if unit not in self.kept and self.sizes(unit).reduced:
            self.kept[unit] = self.program.take(self.sizes(unit).reduced, purpose=WHOLE_GRADIENTS)
        self.program.give(*gradients)

    def end_backward(self) -> None:
        """The last reduction is waited for."""
        self._end_reduction()

    def states(self) -> list[int]:
        """Sizes of each weight's."""
        if self.plan.offloads:
            return []
        return [size for sizes in (self.root, *self.layers) for size in sizes.states if size]

    def transients(self) -> list[int]:
        """As large as a part of the states."""
        return self.plan.upkeep.transients(self.states())

    def zero(self) -> None:
        """This rank's gradients go."""
        self.program.give(*self.own_gradients.values())
        self.own_gradients.clear()

    def _reshard(self, unit: int) -> None:
        self.program.give(*self.copies.pop(unit, ()))

    def _gather(self, unit: int) -> int:
        sizes = self.sizes(unit)
        # What lies in main memory comes over first, weight by weight.
        sent = [self.program.take(part, GATHER_STREAM, BUFFERS) for part in sizes.parts if self.plan.offloads]
        cast = [self.program.take(sizes.cast, GATHER_STREAM, BUFFERS)] if sizes.cast else []
        gathered = self.program.take(sizes.gathered, GATHER_STREAM, BUFFERS)
        self.program.give(*cast, *sent)
        return gathered

    def _copy(self, unit: int) -> None:
        self.copies[unit] = tuple(self.program.take(size, purpose=GATHERED) for size in self.sizes(unit).copies)

    def _end_reduction(self) -> None:
        if self.waiting_reduced is not None:
            self.program.give(self.waiting_reduced)
            self.waiting_reduced = None


def _sizes(units: Sequence[Unit], plan: RowPlan) -> _Sizes:
    parts, trained, copies, states = [], [], [], []
    gathered = reduced = reduced_part = gradient_part = 0
    is_cast = False
    for unit in units:
        for weight in unit.weights:
            rows = row_share(weight, plan.ranks)
            travel = plan.travel_bytes or weight.element_bytes
            is_cast = is_cast or travel != weight.element_bytes
            parts.append(rows * weight.element_bytes)
            trained.append(weight.is_trained)
            copies.append(rows * plan.ranks * travel)
            gathered += rows * plan.ranks * travel
            if weight.is_trained:
                states.append(round(rows * plan.upkeep.state_bytes))
                reduced += rows * plan.ranks * (plan.reduce_bytes or travel)
                reduced_part += rows * (plan.reduce_bytes or travel)
                gradient_part += rows * weight.element_bytes
    cast = gathered // plan.ranks if is_cast else 0
    return _Sizes(
        tuple(parts), tuple(trained), tuple(copies), tuple(states), cast, gathered, reduced, reduced_part, gradient_part
    )
