"""`fully_shard` around a program: its steps as events of the allocator, streams apart.

Legend as in `fsdp2`. Gathers run in a stream of their own, reductions in another: what they take is not used again by
the program. The first gather of a forward pass is the root's; the last layer's buffer is freed with the root's forward.

Source: torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py and _fsdp_param_group.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.predict.training.parallel.fsdp2 import RowPlan
from capienza.predict.training.parallel.passage import Passage, left_over, numbered
from capienza.predict.training.parallel.program import GATHER_STREAM, REDUCE_STREAM, Program
from capienza.predict.training.parallel.units import Model, Unit, row_share

STEP_COUNTER_BYTES = 4


class _Sizes(msgspec.Struct, frozen=True):
    """Of a unit: each weight's part, its whole copy, its optimizer states; the gather's input and output; the
    reduce-scatter's input and output.
    """

    parts: tuple[int, ...]
    copies: tuple[int, ...]
    states: tuple[int, ...]
    cast: int
    gathered: int
    reduced: int
    reduced_part: int


class Woven:
    """One rank's program, as it is written."""

    def __init__(self, model: Model, plan: RowPlan, workspace_bytes: int) -> None:
        self.program, self.plan, self.workspace_bytes = Program(), plan, workspace_bytes
        known = {layer: _sizes(layer, plan) for layer in {*model.layers, model.root}}
        self.layers, self.root = [known[layer] for layer in model.layers], known[model.root]
        self.copies: dict[int, tuple[int, ...]] = {}
        self.ahead: dict[int, int] = {}
        self.last_gathered: int | None = None
        self.waiting_reduced: int | None = None
        self.whole_gradients: dict[int, list[int]] = {}
        self.own_gradients: list[int] = []

    def sizes(self, unit: int) -> _Sizes:
        """Of a layer, or of the root (-1)."""
        return self.root if unit < 0 else self.layers[unit]

    def load(self) -> None:
        """This rank's parts, and the matrix library's workspace."""
        for unit in (-1, *range(len(self.layers))):
            for part in self.sizes(unit).parts:
                self.program.take(part)
        self.program.take(self.workspace_bytes)

    def gather(self, unit: int) -> int:
        """The buffer that receives a unit."""
        sizes = self.sizes(unit)
        cast = self.program.take(sizes.cast, GATHER_STREAM) if sizes.cast else None
        gathered = self.program.take(sizes.gathered, GATHER_STREAM)
        if cast is not None:
            self.program.give(cast)
        return gathered

    def copy(self, unit: int) -> None:
        """What the module uses."""
        self.copies[unit] = tuple(self.program.take(size) for size in self.sizes(unit).copies)

    def unshard_in_forward(self, unit: int) -> None:
        """The buffer of the unit before is freed once this one is copied."""
        if not self.sizes(unit).copies:
            return
        gathered = self.gather(unit)
        self.copy(unit)
        if self.last_gathered is not None:
            self.program.give(self.last_gathered)
        self.last_gathered = gathered

    def unshard_in_backward(self, unit: int) -> None:
        """Its buffer was filled ahead; the next one's is filled now."""
        if unit not in self.copies:
            gathered = self.ahead.pop(unit) if unit in self.ahead else self.gather(unit)
            self.copy(unit)
            self.program.give(gathered)
        if unit > 0 and unit - 1 not in self.copies:
            self.ahead[unit - 1] = self.gather(unit - 1)

    def reshard(self, unit: int) -> None:
        """Back to this rank's part."""
        self.program.give(*self.copies.pop(unit, ()))

    def reduce(self, unit: int) -> None:
        """Whole gradients become this rank's part of the sum."""
        self.reshard(unit)
        if self.waiting_reduced is not None:
            self.program.give(self.waiting_reduced)
            self.waiting_reduced = None
        sizes, whole = self.sizes(unit), self.whole_gradients.pop(unit, [])
        if not sizes.reduced:
            return
        self.waiting_reduced = self.program.take(sizes.reduced)
        self.program.give(*whole)
        self.own_gradients.append(self.program.take(sizes.reduced_part, REDUCE_STREAM))

    def stays(self, layer: int) -> bool:
        """Whether a layer stays gathered after forward."""
        is_last = layer == len(self.layers) - 1
        return self.plan.reshards == "none" or (self.plan.reshards == "all_but_last" and is_last)

    def forward(self, passages: Sequence[Passage]) -> None:
        """A forward pass, from the root's gather to the loss."""
        self.unshard_in_forward(-1)
        for passage in passages:
            if isinstance(passage.place, int):
                self.unshard_in_forward(passage.place)
            self.program.extend(passage.events)
            if isinstance(passage.place, int) and not self.stays(passage.place):
                self.reshard(passage.place)
        if self.last_gathered is not None:
            self.program.give(self.last_gathered)
            self.last_gathered = None

    def backward(self, passages: Sequence[Passage], *, is_reduced: bool) -> None:
        """A backward pass; without a reduction whole gradients stay for the next one."""
        for passage in passages:
            unit = passage.place if isinstance(passage.place, int) else -1
            if unit >= 0:
                self.unshard_in_backward(unit)
            self.program.extend(passage.events)
            held = self.whole_gradients.setdefault(unit, [])
            if held and unit >= 0:
                self.program.give(*passage.gradients)
            else:
                held.extend(passage.gradients)
            if unit >= 0:
                self.reduce(unit) if is_reduced else self.reshard(unit)
        if is_reduced:
            self.reduce(-1)
        else:
            self.reshard(-1)
        if self.waiting_reduced is not None:
            self.program.give(self.waiting_reduced)
            self.waiting_reduced = None

    def optimizer(self, *, is_first: bool) -> None:
        """States at the first step; what a step makes for its own length."""
        units = (-1, *range(len(self.layers)))
        if is_first:
            for unit in units:
                for size in self.sizes(unit).states:
                    self.program.take(STEP_COUNTER_BYTES)
                    self.program.take(size // 2)
                    self.program.take(size - size // 2)
        share = self.plan.upkeep.step_bytes / self.plan.upkeep.state_bytes if self.plan.upkeep.state_bytes else 0
        self.program.passing(*[round(size * share) for unit in units for size in self.sizes(unit).states if share])


def fsdp2_program(
    passages: Sequence[Passage], model: Model, plan: RowPlan, *, workspace_bytes: int, microbatches: int = 1, steps: int = 2
) -> Program:
    """So many steps of one rank. `passages` are one microbatch's, in order, forward and backward.

    `workspace_bytes`: the matrix library's, of the main thread and again of the thread that runs backward.
    """
    woven = Woven(model, plan, workspace_bytes)
    woven.load()
    batch: tuple[int, ...] = ()
    for step in range(steps):
        woven.program.give(*woven.own_gradients)
        woven.own_gradients.clear()
        for microbatch in range(microbatches):
            mine = numbered(passages, microbatch)
            woven.program.give(*batch)
            batch = left_over(mine)
            woven.forward([passage for passage in mine if passage.phase == "forward"])
            if step == microbatch == 0:
                woven.program.take(workspace_bytes)
            is_last = microbatch == microbatches - 1
            woven.backward(
                [passage for passage in mine if passage.phase == "backward"],
                is_reduced=is_last or not plan.accumulates_whole,
            )
        woven.optimizer(is_first=step == 0)
    return woven.program


def _sizes(units: Sequence[Unit], plan: RowPlan) -> _Sizes:
    parts, copies, states = [], [], []
    gathered = reduced = reduced_part = 0
    is_cast = False
    for unit in units:
        for weight in unit.weights:
            rows = row_share(weight, plan.ranks)
            travel = plan.travel_bytes or weight.element_bytes
            is_cast = is_cast or travel != weight.element_bytes
            parts.append(rows * weight.element_bytes)
            copies.append(rows * plan.ranks * travel)
            gathered += rows * plan.ranks * travel
            if weight.is_trained:
                states.append(round(rows * plan.upkeep.state_bytes))
                reduced += rows * plan.ranks * (plan.reduce_bytes or travel)
                reduced_part += rows * (plan.reduce_bytes or travel)
    cast = gathered // plan.ranks if is_cast else 0
    return _Sizes(tuple(parts), tuple(copies), tuple(states), cast, gathered, reduced, reduced_part)
