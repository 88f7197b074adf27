"""`fully_shard` (FSDP2): every parameter is cut along its first dimension; units are gathered through copies.

Legend: E elements of a unit with rows padded to n equal parts, n ranks; b bytes of an element as it is stored, t as it
travels (param_dtype, else b), r as gradients are reduced (reduce_dtype, else t); W = E x t a whole unit.
Forward: the gather's buffer, its copy that the module uses, and the buffer of the unit before, which is freed after
the copy: 3 W when a unit begins, 2 W while it runs. Backward of a unit: the copy it uses, the buffer of the unit after
it, gathered ahead, its gradients, and the input of the reduce-scatter before: 3 W + E x r. The root's copy stays from
forward to the end of backward. What is not resharded after forward stays until its own backward.

Source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py and _fsdp_collectives.py; each moment agrees with
traced ranks within 0.5 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec.structs import replace

from capienza.predict.training.parallel.moment import Moment, Step
from capienza.predict.training.parallel.states import Upkeep
from capienza.predict.training.parallel.units import Model, Unit, block_bytes, row_share

Reshards = Literal["all", "all_but_last", "none"]


class RowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How it is wrapped: `ranks` share one copy (HSDP: those of the inner group; the outer one reduces in place).

    `reshards`: which layers are freed after forward. `accumulates_whole`: gradients stay whole, as they are reduced,
    until the last microbatch.
    """

    ranks: int
    upkeep: Upkeep
    travel_bytes: int | None = None
    reduce_bytes: int | None = None
    reshards: Reshards = "all"
    accumulates_whole: bool = False


class _Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's part of weights, their whole copies, whole gradients, and the buffer that these are reduced from."""

    part_bytes: int
    trained_elements: int
    gradient_part_bytes: int
    whole_bytes: int
    gradient_whole_bytes: int
    reduced_bytes: int


def fsdp2(model: Model, plan: RowPlan) -> Step:
    """The moments of a step."""
    known = {layer: _together(_cut(unit, plan) for unit in layer) for layer in set(model.layers)}
    layers = [known[layer] for layer in model.layers]
    root = _together(_cut(unit, plan) for unit in model.root)
    every = _together([*layers, root])
    kept = every.reduced_bytes if plan.accumulates_whole else 0
    own = Moment(
        parameters_bytes=every.part_bytes, states_bytes=round(every.trained_elements * plan.upkeep.state_bytes)
    )
    stays = {"all": layers[:0], "all_but_last": layers[-1:], "none": layers}[plan.reshards]
    staying = sum(cut.whole_bytes for cut in stays)
    largest = max((cut.whole_bytes for cut in layers), default=0)
    gathered = root.whole_bytes + (staying if plan.reshards == "none" else largest)
    last_reduced = layers[0].reduced_bytes if layers else 0
    return Step(
        forward=replace(own, gradients_bytes=kept, gathered_bytes=gathered, communication_bytes=2 * largest),
        loss=replace(own, gradients_bytes=kept, gathered_bytes=root.whole_bytes + staying),
        backward=_backward(layers, stays, replace(own, gathered_bytes=root.whole_bytes), root, kept),
        root=replace(
            own,
            gradients_bytes=max(kept, every.gradient_part_bytes),
            gathered_bytes=root.gradient_whole_bytes,
            communication_bytes=max(root.reduced_bytes, last_reduced),
        ),
        optimizer=replace(
            own,
            gradients_bytes=every.gradient_part_bytes,
            transient_bytes=round(every.trained_elements * plan.upkeep.step_bytes),
        ),
        after=own,
    )


def _backward(layers: list[_Cut], stays: list[_Cut], own: Moment, root: _Cut, kept: int) -> tuple[Moment, ...]:
    moments, reduced, before = [], 0, 0
    for position, cut in enumerate(reversed(layers)):
        still = stays[: len(stays) - position]
        whole = sum(one.whole_bytes for one in still) if still else cut.whole_bytes
        is_ahead = position + 1 < len(layers) and len(still) < 2
        ahead = layers[-2 - position].whole_bytes if is_ahead else 0
        moments.append(
            replace(
                own,
                gradients_bytes=max(kept, reduced),
                gathered_bytes=own.gathered_bytes + root.gradient_whole_bytes + whole + cut.gradient_whole_bytes,
                communication_bytes=ahead + before,
            )
        )
        reduced, before = reduced + cut.gradient_part_bytes, cut.reduced_bytes
    return tuple(moments)


def _cut(unit: Unit, plan: RowPlan) -> _Cut:
    part = whole = gradient_part = gradient_whole = reduced = elements = 0
    for weight in unit.weights:
        rows = row_share(weight, plan.ranks)
        travel = plan.travel_bytes or weight.element_bytes
        part += block_bytes(rows * weight.element_bytes)
        whole += block_bytes(rows * plan.ranks * travel)
        if weight.is_trained:
            elements += rows
            gradient_part += rows * weight.element_bytes
            gradient_whole += block_bytes(weight.elements * travel)
            reduced += rows * plan.ranks * (plan.reduce_bytes or travel)
    return _Cut(
        part_bytes=part,
        trained_elements=elements,
        gradient_part_bytes=block_bytes(gradient_part),
        whole_bytes=whole,
        gradient_whole_bytes=gradient_whole,
        reduced_bytes=block_bytes(reduced),
    )


def _together(cuts: Iterable[_Cut]) -> _Cut:
    found = list(cuts)
    return _Cut(
        part_bytes=sum(cut.part_bytes for cut in found),
        trained_elements=sum(cut.trained_elements for cut in found),
        gradient_part_bytes=sum(cut.gradient_part_bytes for cut in found),
        whole_bytes=sum(cut.whole_bytes for cut in found),
        gradient_whole_bytes=sum(cut.gradient_whole_bytes for cut in found),
        reduced_bytes=sum(cut.reduced_bytes for cut in found),
    )
