"""DeepSpeed's ZeRO, stages 1 to 3, in 16-bit training with an fp32 copy of what is trained.

Legend: P elements, T trained ones, n ranks; w bytes of a 16-bit weight. A bucket is `reduce_bucket` elements.
    stage 1  w P, whole gradients w T; this rank's part of the copy 4 T/n and of Adam's states 8 T/n
             a bucket only when backward is done: overlapping means nothing in stage 1
    stage 2  as 1, but of the gradients only this rank's part stays; they pass through a bucket (two with overlap)
    stage 3  weights w P/n too; whole are those below `persists`, and while they run at most `live` elements, or the
             largest layer and what is prefetched
    step     this rank's gradients in fp32, 4 T/n; in stage 3 at most `sub_group` elements at a time
    offload  of the optimizer: copy and states in main memory, gradients go there bucket by bucket; of the parameters:
             stage 3's parts too
Stage 0 of a pipeline or without sharding is `ddp` with a flat bucket of at most 5e8 elements at the end of a step.

Sources: deepspeed/runtime/zero/stage_1_and_2.py (ipg buckets, averaged_gradients, single_grad_partition), stage3.py,
partitioned_param_coordinator.py (max_live_parameters, prefetch), config.py for the defaults; Rajbhandari et al. 2020
(arXiv 1910.02054) for 4P + 12P/n, 2P + 14P/n and 16P/n.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from capienza.predict.training.parallel.moment import Moment, Step
from capienza.predict.training.parallel.units import Model, Unit, share

FP32_BYTES, STATE_BYTES = 4, 8


class ZeroPlan(msgspec.Struct, frozen=True, kw_only=True):
    """DeepSpeed's options with its defaults, in elements. transformers' "auto" is `zero_auto`."""

    stage: Literal[1, 2, 3]
    ranks: int
    offload: Literal["none", "optimizer", "parameters"] = "none"
    reduce_bucket: int = 500_000_000
    prefetch: int = 50_000_000
    persists: int = 100_000
    live: int = 1_000_000_000
    sub_group: int = 1_000_000_000
    overlaps: bool = True
    state_bytes: int = STATE_BYTES


def zero_auto(plan: ZeroPlan, hidden: int) -> ZeroPlan:
    """What transformers writes for "auto" (integrations/deepspeed.py): by the hidden width, in stage 3 only."""
    if plan.stage != 3:
        return plan
    return replace(plan, reduce_bucket=hidden**2, prefetch=int(0.9 * hidden**2), persists=10 * hidden)


def zero(model: Model, plan: ZeroPlan) -> Step:
    """The moments of a step of one rank."""
    counts = counts_of(model, plan)
    trained = share(counts.trained, plan.ranks)
    buckets = min(plan.reduce_bucket, counts.trained) * counts.item * (2 if plan.overlaps and plan.stage > 1 else 1)
    on_gpu = plan.offload == "none"
    parts = 0 if plan.stage == 3 and plan.offload == "parameters" else counts.parts_bytes
    own = Moment(
        parameters_bytes=(parts if plan.stage == 3 else counts.bytes) + (FP32_BYTES * trained if on_gpu else 0),
        states_bytes=plan.state_bytes * trained if on_gpu else 0,
    )
    forward = counts.persisting_bytes + counts.running_bytes if plan.stage == 3 else 0
    rest = counts.persisting_bytes if plan.stage == 3 else 0
    kept = 0 if not on_gpu else counts.item * trained
    backward = []
    made = 0
    for layer in reversed(model.layers):
        fresh = _trained_bytes(layer)
        made += fresh
        backward.append(
            replace(
                own,
                gradients_bytes=made if plan.stage == 1 else kept,
                gathered_bytes=forward + (0 if plan.stage == 1 else fresh),
                communication_bytes=buckets,
            )
        )
    whole = counts.trained * counts.item
    end = replace(
        own,
        gradients_bytes=whole if plan.stage == 1 else kept,
        gathered_bytes=rest + (0 if plan.stage == 1 else _trained_bytes(model.root)),
        communication_bytes=buckets,
    )
    widened = FP32_BYTES * (min(trained, plan.sub_group) if plan.stage == 3 else trained) if on_gpu else 0
    before = replace(own, gradients_bytes=kept if plan.stage == 3 else 0)
    return Step(
        forward=replace(before, gathered_bytes=forward),
        loss=replace(before, gathered_bytes=forward),
        backward=tuple(backward),
        root=end,
        optimizer=replace(own, gradients_bytes=kept, gathered_bytes=rest, transient_bytes=widened),
        after=replace(before, gathered_bytes=rest),
    )


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a model under a plan; `item` is a gradient's bytes an element, `trained` counts elements."""

    bytes: int
    parts_bytes: int
    persisting_bytes: int
    running_bytes: int
    trained: int
    item: int


def counts_of(model: Model, plan: ZeroPlan) -> Counts:
    """Sizes of the whole model; in stage 3 what stays whole, and what is gathered while it runs."""
    weights = [weight for unit in model.units for weight in unit.weights]
    sharded = [weight for weight in weights if weight.elements > plan.persists]
    item = max((weight.element_bytes for weight in weights if weight.is_trained), default=2)
    largest = max((_sharded_bytes(layer, plan) for layer in (*model.layers, model.root)), default=0)
    everything = sum(weight.elements * weight.element_bytes for weight in sharded)
    ahead = min(plan.prefetch * item, everything)
    running = min(max(largest + ahead, 0), everything)
    return Counts(
        bytes=sum(weight.elements * weight.element_bytes for weight in weights),
        parts_bytes=sum(share(weight.elements, plan.ranks) * weight.element_bytes for weight in weights),
        persisting_bytes=sum(
            weight.elements * weight.element_bytes for weight in weights if weight.elements <= plan.persists
        ),
        running_bytes=max(min(running, everything), min(plan.live * item, everything)),
        trained=sum(weight.elements for weight in weights if weight.is_trained),
        item=item,
    )


def _sharded_bytes(units: tuple[Unit, ...], plan: ZeroPlan) -> int:
    return sum(
        weight.elements * weight.element_bytes
        for unit in units
        for weight in unit.weights
        if weight.elements > plan.persists
    )


def _trained_bytes(units: tuple[Unit, ...]) -> int:
    return sum(weight.elements * weight.element_bytes for unit in units for weight in unit.weights if weight.is_trained)
