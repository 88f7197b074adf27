"""FullyShardedDataParallel (FSDP1): flat parameters, gathered unit by unit.

Legend: E elements of a unit, n ranks; b bytes of an element as it is stored, t as it travels (mixed precision's
param_dtype, else b); W = E x t a whole unit, S = ceil(E / n) x b a rank's part of it, each in blocks of 512 bytes.
Every rank keeps S of each unit, and as much for its gradient. A unit is gathered before it runs and freed after; in
backward the next one is gathered while one runs (BACKWARD_PRE). Its gradients come one by one and are then put into a
flat one: 2 W for a moment. The root unit stays gathered from forward to the end of backward, and its gradients with it.

Sources: torch/distributed/fsdp/_flat_param.py, _runtime_utils.py (prefetch, reduce-scatter, reshard); each moment
agrees with traced ranks within 0.5 %. The reduced gradient outlives `zero_grad`, as `_saved_grad_shard`, until the next
forward pass begins: 8 P/n after the last step of pure bf16 runs, where weights and states are 6 (measured:
fms-acceleration's benchmark on A100, torch 2.4). accelerate takes the trained flat parameters up to fp32 when it is
told of mixed precision (accelerator.py, prepare_model).
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from capienza.predict.training.parallel.folded import Cut, folded
from capienza.predict.training.parallel.moment import Moment, Step
from capienza.predict.training.parallel.states import Upkeep
from capienza.predict.training.parallel.units import Model, Unit, block_bytes, share

FP32_BYTES = 4


class FlatPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How it is wrapped: `ranks` share one copy.

    `travel_bytes` None: parameters travel as they are stored. `widens_trained`: accelerate's upcast. `prefetches`:
    BACKWARD_PRE. `accumulates_whole`: microbatches before the last keep whole gradients (no_sync). `offloads`: parts,
    their gradients and states lie in main memory.
    """

    ranks: int
    upkeep: Upkeep
    travel_bytes: int | None = None
    widens_trained: bool = False
    prefetches: bool = True
    accumulates_whole: bool = False
    offloads: bool = False


def fsdp1(model: Model, plan: FlatPlan) -> Step:
    """The moments of a step. Raises `ValueError` for a unit whose weights differ in format or in being trained."""
    whole = folded(model, lambda unit: _flat(unit, plan))
    layers, root, every = whole.layers, whole.root, whole.every
    kept = every.gradient_whole_bytes if plan.accumulates_whole else 0
    # What is offloaded, gradients too, lies in main memory between its uses.
    stays = 0 if plan.offloads else 1
    own = Moment(
        parameters_bytes=stays * every.part_bytes,
        states_bytes=stays * round(every.state_elements * plan.upkeep.state_bytes),
    )
    backward, reduced = [], 0
    for position, flat in enumerate(reversed(layers)):
        ahead = layers[-2 - position].whole_bytes if plan.prefetches and position + 1 < len(layers) else 0
        gathered = root.whole_bytes + root.gradient_whole_bytes + flat.whole_bytes + ahead + flat.growing_bytes
        backward.append(replace(own, gradients_bytes=max(kept, reduced), gathered_bytes=gathered))
        reduced += stays * flat.gradient_part_bytes
    parts = stays * every.gradient_part_bytes
    largest = max((flat.whole_bytes for flat in layers), default=0)
    return Step(
        forward=replace(own, gradients_bytes=kept, gathered_bytes=root.whole_bytes + largest),
        loss=replace(own, gradients_bytes=kept, gathered_bytes=root.whole_bytes),
        backward=tuple(backward),
        root=replace(own, gradients_bytes=max(kept, reduced), gathered_bytes=root.whole_bytes + root.growing_bytes),
        optimizer=replace(
            own,
            gradients_bytes=parts,
            transient_bytes=stays * round(every.state_elements * plan.upkeep.step_bytes),
        ),
        after=replace(own, gradients_bytes=parts),
    )


def _flat(unit: Unit, plan: FlatPlan) -> Cut:
    kinds = {(weight.element_bytes, weight.is_trained) for weight in unit.weights}
    if len(kinds) != 1:
        message = f"unit {unit.name}: weights of a flat parameter are alike, not {sorted(kinds)}"
        raise ValueError(message)
    ((element_bytes, is_trained),) = kinds
    stored = FP32_BYTES if plan.widens_trained and is_trained else element_bytes
    part_elements = share(unit.elements, plan.ranks)
    part = block_bytes(part_elements * stored)
    whole = block_bytes(part_elements * plan.ranks * (plan.travel_bytes or stored))
    return Cut(
        part_bytes=part,
        whole_bytes=whole,
        state_elements=share(unit.state_elements, plan.ranks),
        gradient_part_bytes=part * is_trained,
        gradient_whole_bytes=whole * is_trained,
        growing_bytes=2 * whole * is_trained,
    )
