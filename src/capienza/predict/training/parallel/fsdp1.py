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

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from capienza.predict.training.parallel.moment import Moment, Step
from capienza.predict.training.parallel.states import Upkeep
from capienza.predict.training.parallel.units import Model, Unit, block_bytes, share

FP32_BYTES = 4


class FlatPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How it is wrapped: `ranks` share one copy.

    `travel_bytes` None: parameters travel as they are stored. `widens_trained`: accelerate's upcast. `prefetches`:
    BACKWARD_PRE. `accumulates_whole`: microbatches before the last keep whole gradients (no_sync).
    """

    ranks: int
    upkeep: Upkeep
    travel_bytes: int | None = None
    widens_trained: bool = False
    prefetches: bool = True
    accumulates_whole: bool = False


class _Flat(msgspec.Struct, frozen=True, kw_only=True):
    """Flat parameters: a rank's part of them and their whole, and as much for their gradients.

    `state_elements` of the part that an optimizer has states for; `growing_bytes`: the largest gradient while it is put
    together.
    """

    part_bytes: int
    whole_bytes: int
    state_elements: int
    gradient_part_bytes: int
    gradient_whole_bytes: int
    growing_bytes: int


def fsdp1(model: Model, plan: FlatPlan) -> Step:
    """The moments of a step. Raises `ValueError` for a unit whose weights differ in format or in being trained."""
    known = {layer: _together(_flat(unit, plan) for unit in layer) for layer in set(model.layers)}
    layers = [known[layer] for layer in model.layers]
    root = _together(_flat(unit, plan) for unit in model.root)
    every = _together([*layers, root])
    kept = every.gradient_whole_bytes if plan.accumulates_whole else 0
    own = Moment(parameters_bytes=every.part_bytes, states_bytes=round(every.state_elements * plan.upkeep.state_bytes))
    backward, reduced = [], 0
    for position, flat in enumerate(reversed(layers)):
        ahead = layers[-2 - position].whole_bytes if plan.prefetches and position + 1 < len(layers) else 0
        whole = root.whole_bytes + root.gradient_whole_bytes + flat.whole_bytes + ahead + flat.growing_bytes
        backward.append(replace(own, gradients_bytes=max(kept, reduced), gathered_bytes=whole))
        reduced += flat.gradient_part_bytes
    parts = every.gradient_part_bytes
    largest = max((flat.whole_bytes for flat in layers), default=0)
    return Step(
        forward=replace(own, gradients_bytes=kept, gathered_bytes=root.whole_bytes + largest),
        loss=replace(own, gradients_bytes=kept, gathered_bytes=root.whole_bytes),
        backward=tuple(backward),
        root=replace(own, gradients_bytes=max(kept, reduced), gathered_bytes=root.whole_bytes + root.growing_bytes),
        optimizer=replace(
            own,
            gradients_bytes=parts,
            transient_bytes=round(every.state_elements * plan.upkeep.step_bytes),
        ),
        after=replace(own, gradients_bytes=parts),
    )


def _flat(unit: Unit, plan: FlatPlan) -> _Flat:
    kinds = {(weight.element_bytes, weight.is_trained) for weight in unit.weights}
    if len(kinds) != 1:
        message = f"unit {unit.name}: weights of a flat parameter are alike, not {sorted(kinds)}"
        raise ValueError(message)
    ((element_bytes, is_trained),) = kinds
    stored = FP32_BYTES if plan.widens_trained and is_trained else element_bytes
    part_elements = share(unit.elements, plan.ranks)
    part = block_bytes(part_elements * stored)
    whole = block_bytes(part_elements * plan.ranks * (plan.travel_bytes or stored))
    return _Flat(
        part_bytes=part,
        whole_bytes=whole,
        state_elements=share(unit.state_elements, plan.ranks),
        gradient_part_bytes=part * is_trained,
        gradient_whole_bytes=whole * is_trained,
        growing_bytes=2 * whole * is_trained,
    )


def _together(flats: Iterable[_Flat]) -> _Flat:
    """Several flat parameters as one: their gradients are put together one after the other."""
    found = list(flats)
    return _Flat(
        part_bytes=sum(flat.part_bytes for flat in found),
        whole_bytes=sum(flat.whole_bytes for flat in found),
        state_elements=sum(flat.state_elements for flat in found),
        gradient_part_bytes=sum(flat.gradient_part_bytes for flat in found),
        gradient_whole_bytes=sum(flat.gradient_whole_bytes for flat in found),
        growing_bytes=max((flat.growing_bytes for flat in found), default=0),
    )
