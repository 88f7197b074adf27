"""DeepSpeed's ZeRO around a program: its steps as events of the allocator. Legend and sources as in `zero`.

Optimizer states are made when the engine is (`initialize_optimizer_states`), not at the first step. In stage 3 so much
as may be live is taken at the first gather and stays until backward ends; this rank's gradients have a place of their
own from the start. Stage 1 reduces whole gradients when backward is done, through one copy of at most a bucket.
"""

from __future__ import annotations

from collections.abc import Sequence

from capienza.predict.training.parallel.passage import Passage
from capienza.predict.training.parallel.program import (
    ADAPTERS,
    BUFFERS,
    GATHERED,
    GRADIENTS,
    STATES,
    WEIGHTS,
    Program,
)
from capienza.predict.training.parallel.units import Model, share
from capienza.predict.training.parallel.woven import ROOT, weave
from capienza.predict.training.parallel.zero import FP32_BYTES, ZeroPlan, counts_of


def zero_program(
    passages: Sequence[Passage],
    model: Model,
    plan: ZeroPlan,
    *,
    workspace_bytes: int,
    microbatches: int = 1,
    steps: int = 2,
    evaluation: Sequence[Passage] = (),
) -> Program:
    """So many steps of one rank."""
    return weave(
        passages,
        Partitions(model, plan),
        workspace_bytes=workspace_bytes,
        microbatches=microbatches,
        accumulates_whole=plan.stage == 1,
        has_loss=True,
        steps=steps,
        evaluation=evaluation,
    )


class Partitions:
    """The hooks of DeepSpeed's optimizers."""

    keeps_gradients = False

    def __init__(self, model: Model, plan: ZeroPlan) -> None:
        self.program, self.plan, self.counts = Program(), plan, counts_of(model, plan)
        self.weights = [weight for unit in model.units for weight in unit.weights]
        self.part = share(self.counts.trained, plan.ranks)
        self.is_here = plan.offload == "none"
        self.live: list[int] = []
        self.buckets: list[int] = []
        self.own: list[int] = []
        self.whole: list[int] = []
        self.kept: dict[int, Sequence[int]] = {}

    def load(self) -> None:
        """Weights, whole or this rank's part; the copy in fp32 and the states."""
        has_frozen = any(not weight.is_trained for weight in self.weights)
        for weight in self.weights:
            is_whole = self.plan.stage < 3 or weight.elements <= self.plan.persists
            if not is_whole and self.plan.offload == "parameters":
                continue
            elements = weight.elements if is_whole else share(weight.elements, self.plan.ranks)
            purpose = ADAPTERS if has_frozen and weight.is_trained else WEIGHTS
            self.program.take(elements * weight.element_bytes, purpose=purpose)
        if not self.is_here:
            return
        self.program.take(FP32_BYTES * self.part, purpose=STATES)
        for _ in range(2):
            self.program.take(self.plan.state_bytes * self.part // 2, purpose=STATES)
        if self.plan.stage == 3:
            self.program.take(self.counts.item * self.part, purpose=GRADIENTS)

    def unshard_in_forward(self, unit: int) -> None:
        """What may be live is gathered."""
        if unit == ROOT and self.plan.stage == 3:
            self.live.append(self.program.take(self.counts.running_bytes, purpose=GATHERED))

    def reshard_in_forward(self, unit: int) -> None:
        """The window of what is live moves on."""

    def end_forward(self) -> None:
        """It stays."""

    def gather_last(self) -> None:
        """Buckets are there while backward runs."""
        if self.plan.stage == 1:
            return
        size = min(self.plan.reduce_bucket, self.counts.trained) * self.counts.item
        self.buckets += [self.program.take(size, purpose=BUFFERS) for _ in range(1 + self.plan.overlaps)]

    def unshard_in_backward(self, unit: int) -> None:
        """The window of what is live moves on."""

    def reduce(self, unit: int, gradients: Sequence[int]) -> None:
        """Stage 1 keeps them whole; later stages copy them into a bucket, and this rank's part of the sum stays."""
        if self.plan.stage == 1:
            mine = self.kept.pop(unit, None)
            self.whole += gradients if mine is None else mine
            self.program.give(*(() if mine is None else gradients))
            return
        self.program.give(*gradients)
        if self.plan.stage == 2 and self.is_here and not self.own:
            self.own.append(self.program.take(self.counts.item * self.part, purpose=GRADIENTS))

    def leave(self, unit: int, gradients: Sequence[int]) -> None:
        """Gradients stay; later ones are added to them."""
        if unit in self.kept:
            self.program.give(*gradients)
        else:
            self.kept[unit] = gradients

    def end_backward(self) -> None:
        """Buckets and what was gathered go."""
        self.program.give(*self.buckets, *self.live)
        self.buckets.clear()
        self.live.clear()
        if self.plan.stage == 1 and self.whole:
            size = min(self.plan.reduce_bucket, self.counts.trained) * self.counts.item
            self.program.passing(size, purpose=BUFFERS)
            if self.is_here:
                self.own.append(self.program.take(self.counts.item * self.part, purpose=GRADIENTS))
            self.program.give(*self.whole)
            self.whole.clear()

    def states(self) -> list[int]:
        """They are there already."""
        return []

    def transients(self) -> list[int]:
        """This rank's gradients in fp32."""
        if not self.is_here:
            return []
        elements = min(self.part, self.plan.sub_group) if self.plan.stage == 3 else self.part
        return [FP32_BYTES * elements]

    def zero(self) -> None:
        """This rank's gradients go, but for stage 3's."""
        self.program.give(*self.own)
        self.own.clear()
