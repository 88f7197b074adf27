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

from typing import Literal

import msgspec
from msgspec.structs import replace

from capienza.predict.training.parallel.folded import Cut, folded
from capienza.predict.training.parallel.moment import Moment, Step
from capienza.predict.training.parallel.states import Upkeep
from capienza.predict.training.parallel.units import Model, Unit, block_bytes, row_share

Reshards = Literal["all", "all_but_last", "none"]


class RowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How it is wrapped: `ranks` share one copy (HSDP: those of the inner group; the outer one reduces in place).

    `reshards`: which layers are freed after forward. `accumulates_whole`: gradients stay whole, as they are reduced,
    until the last microbatch. `offloads`: parts, their gradients and states lie in main memory.
    """

    ranks: int
    upkeep: Upkeep
    travel_bytes: int | None = None
    reduce_bytes: int | None = None
    reshards: Reshards = "all"
    accumulates_whole: bool = False
    offloads: bool = False


def fsdp2(model: Model, plan: RowPlan) -> Step:
    """The moments of a step."""
    whole = folded(model, lambda unit: _cut(unit, plan))
    layers, root, every = whole.layers, whole.root, whole.every
    kept = every.reduced_bytes if plan.accumulates_whole else 0
    # What is offloaded, gradients too, lies in main memory between its uses.
    here = 0 if plan.offloads else 1
    own = Moment(
        parameters_bytes=here * every.part_bytes,
        states_bytes=here * round(every.state_elements * plan.upkeep.state_bytes),
    )
    parts = here * every.gradient_part_bytes
    stays = {"all": layers[:0], "all_but_last": layers[-1:], "none": layers}[plan.reshards]
    staying = sum(cut.whole_bytes for cut in stays)
    largest = max((cut.whole_bytes for cut in layers), default=0)
    gathered = root.whole_bytes + (staying if plan.reshards == "none" else largest)
    last_reduced = layers[0].reduced_bytes if layers else 0
    return Step(
        forward=replace(own, gradients_bytes=kept, gathered_bytes=gathered, communication_bytes=2 * largest),
        loss=replace(own, gradients_bytes=kept, gathered_bytes=root.whole_bytes + staying),
        backward=_backward(layers, stays, replace(own, gathered_bytes=root.whole_bytes), root, kept, here=here),
        root=replace(
            own,
            gradients_bytes=max(kept, parts),
            gathered_bytes=root.gradient_whole_bytes,
            communication_bytes=max(root.reduced_bytes, last_reduced),
        ),
        optimizer=replace(
            own,
            gradients_bytes=parts,
            transient_bytes=here * round(every.state_elements * plan.upkeep.step_bytes),
        ),
        after=own,
    )


def _backward(
    layers: list[Cut], stays: list[Cut], own: Moment, root: Cut, kept: int, *, here: int
) -> tuple[Moment, ...]:
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
        reduced, before = reduced + here * cut.gradient_part_bytes, cut.reduced_bytes
    return tuple(moments)


def _cut(unit: Unit, plan: RowPlan) -> Cut:
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
    return Cut(
        part_bytes=part,
        state_elements=elements,
        gradient_part_bytes=block_bytes(gradient_part),
        whole_bytes=whole,
        gradient_whole_bytes=gradient_whole,
        reduced_bytes=block_bytes(reduced),
    )
