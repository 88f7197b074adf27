"""FullyShardedDataParallel around a program: its steps as events of the allocator, streams apart.

Legend as in `fsdp1`. A unit is gathered into the storage that the module uses, in a stream of its own; under mixed
precision a copy of this rank's part in the format of travel is made before and freed after.

Where layers are frozen and checkpointed with reentrance, the hooks that only reshard hold on to each layer's input and
to its gradient until the backward pass ends (`_register_post_backward_reshard_only_hook`, `register_multi_grad_hook`):
`held_bytes` is the size of one such tensor. Seen in traced programs (one more tensor a layer) and in measured ones:
LoRA of Llama and Mistral models on two and four A100 peaks 2 bytes x layers x width x tokens above the same on one.

Source: torch/distributed/fsdp/_flat_param.py, _runtime_utils.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from capienza.allocator.events import ALLOC, FREE
from capienza.predict.training.parallel.fsdp1 import FP32_BYTES, FlatPlan
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
    WORKING,
    Program,
)
from capienza.predict.training.parallel.units import Model, Unit, share
from capienza.predict.training.parallel.woven import ROOT, weave


def fsdp1_program(
    passages: Sequence[Passage],
    model: Model,
    plan: FlatPlan,
    *,
    workspace_bytes: int,
    held_bytes: int = 0,
    microbatches: int = 1,
    has_loss: bool = False,
    steps: int = 2,
    evaluation: Sequence[Passage] = (),
) -> Program:
    """So many steps of one rank. `has_loss`: see `weave`."""
    return weave(
        with_inputs_held(passages, held_bytes) if held_bytes else passages,
        FlatSharder(model, plan, held_bytes),
        workspace_bytes=workspace_bytes,
        microbatches=microbatches,
        accumulates_whole=plan.accumulates_whole,
        has_loss=has_loss,
        steps=steps,
        evaluation=evaluation,
    )


def with_inputs_held(passages: Sequence[Passage], size_bytes: int) -> list[Passage]:
    """The same parts, but what goes into each layer (the last tensor of that size made before it) stays to the end."""
    held: set[int] = set()
    alive: dict[int, int] = {}
    for passage in passages:
        if passage.phase == "forward" and isinstance(passage.place, int):
            held.update([block for block, size in alive.items() if size >= size_bytes][-1:])
        for code, block, size, _ in passage.events:
            if code == ALLOC:
                alive[block] = size
            else:
                alive.pop(block, None)
    made = [
        msgspec.structs.replace(
            passage, events=tuple(event for event in passage.events if event[0] == ALLOC or event[1] not in held)
        )
        for passage in passages
    ]
    frees = tuple((FREE, block, 0, 0) for block in sorted(held))
    return [*made[:-1], msgspec.structs.replace(made[-1], events=(*made[-1].events, *frees))]


class _Flat(msgspec.Struct, frozen=True):
    """Of a flat parameter: this rank's part, the same as it travels (0 where nothing is cast), the whole, states."""

    part: int
    cast: int
    whole: int
    states: int
    is_trained: bool


class FlatSharder:
    """The hooks of FSDP1."""

    keeps_gradients = True

    def __init__(self, model: Model, plan: FlatPlan, held_bytes: int) -> None:
        self.program, self.plan, self.held_bytes = Program(), plan, held_bytes
        known = {layer: [_flat(unit, plan) for unit in layer] for layer in {*model.layers, model.root}}
        self.layers, self.root = [known[layer] for layer in model.layers], known[model.root]
        self.wholes: dict[int, list[int]] = {}
        self.own_gradients: dict[tuple[int, int], int] = {}
        self.kept: dict[int, list[int]] = {}
        self.held: list[int] = []
        self.has_frozen = any(not weight.is_trained for unit in model.units for weight in unit.weights)

    def flats(self, unit: int) -> list[_Flat]:
        """Of a layer, or of the root."""
        return self.root if unit == ROOT else self.layers[unit]

    def load(self) -> None:
        """This rank's parts."""
        if self.plan.offloads:
            return
        for flats in (self.root, *self.layers):
            for flat in flats:
                is_adapter = self.has_frozen and flat.is_trained
                self.program.take(flat.part, purpose=ADAPTERS if is_adapter else WEIGHTS)

    def unshard_in_forward(self, unit: int) -> None:
        """Once."""
        if unit in self.wholes:
            return
        self.wholes[unit] = []
        for flat in self.flats(unit):
            # What lies in main memory comes over first, in the format of travel.
            sent = flat.cast or (flat.part if self.plan.offloads else 0)
            cast = [self.program.take(sent, GATHER_STREAM, BUFFERS)] if sent else []
            self.wholes[unit].append(self.program.take(flat.whole, GATHER_STREAM, GATHERED))
            self.program.give(*cast)

    def reshard_in_forward(self, unit: int) -> None:
        """Every layer is freed."""
        self._reshard(unit)

    def end_forward(self) -> None:
        """The root stays."""

    def gather_last(self) -> None:
        """The last layer, where units are gathered ahead."""
        if self.plan.prefetches and self.layers:
            self.unshard_in_forward(len(self.layers) - 1)

    def unshard_in_backward(self, unit: int) -> None:
        """This one, and the next one ahead."""
        self.unshard_in_forward(unit)
        if self.plan.prefetches and unit > 0:
            self.unshard_in_forward(unit - 1)

    def reduce(self, unit: int, gradients: Sequence[int]) -> None:
        """Gradients are put into a flat one for each unit that is trained; this rank's part of the sum stays."""
        trained = [flat for flat in self.flats(unit) if flat.is_trained]
        for place, (flat, whole) in enumerate(zip(trained, self._flat_gradients(unit, gradients), strict=True)):
            summed = [self.program.take(flat.cast, REDUCE_STREAM, BUFFERS)] if flat.cast else []
            made = self.program.take(flat.part, REDUCE_STREAM, GRADIENTS)
            self.program.give(*summed, whole)
            if self.plan.offloads or self.own_gradients.setdefault((unit, place), made) != made:
                # It goes to main memory, or was added to that of the microbatches before.
                self.program.give(made)
        if unit != ROOT and self.held_bytes:
            self.held.append(self.program.take(self.held_bytes, purpose=WORKING))

    def leave(self, unit: int, gradients: Sequence[int]) -> None:
        """Flat gradients stay whole."""
        self.kept[unit] = self._flat_gradients(unit, gradients)

    def end_backward(self) -> None:
        """What the hooks held goes."""
        self.program.give(*self.held)
        self.held.clear()

    def _reshard(self, unit: int) -> None:
        self.program.give(*self.wholes.pop(unit, ()))

    def _flat_gradients(self, unit: int, gradients: Sequence[int]) -> list[int]:
        """Those of a unit, put together; added to those of the microbatches before, where there are any."""
        made = [self.program.take(flat.whole, purpose=WHOLE_GRADIENTS) for flat in self.flats(unit) if flat.is_trained]
        self.program.give(*gradients)
        self._reshard(unit)
        if unit not in self.kept:
            return made
        self.program.give(*made)
        return self.kept.pop(unit)

    def states(self) -> list[int]:
        """Sizes of each flat parameter's."""
        if self.plan.offloads:
            return []
        return [flat.states for flats in (self.root, *self.layers) for flat in flats if flat.states]

    def transients(self) -> list[int]:
        """As large as a part of the states."""
        return self.plan.upkeep.transients(self.states())

    def zero(self) -> None:
        """This rank's gradients go."""
        self.program.give(*self.own_gradients.values())
        self.own_gradients.clear()


def _flat(unit: Unit, plan: FlatPlan) -> _Flat:
    weight = unit.weights[0]
    stored = FP32_BYTES if plan.widens_trained and weight.is_trained else weight.element_bytes
    travel = plan.travel_bytes or stored
    elements = share(unit.elements, plan.ranks)
    return _Flat(
        part=elements * stored,
        cast=elements * travel if travel != stored else 0,
        whole=elements * plan.ranks * travel,
        states=round(share(unit.state_elements, plan.ranks) * plan.upkeep.state_bytes),
        is_trained=weight.is_trained,
    )
