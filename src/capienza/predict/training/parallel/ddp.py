"""DistributedDataParallel: every rank holds everything, and buckets for the gradients.

Legend: P trained elements, g bytes of a gradient. Buckets are filled in about the reverse order of the parameters, 25
MiB each (the first 1 MiB), and live as long as the wrapper: one more copy of the gradients, P x g. With
`gradient_as_bucket_view` the gradients are views of the buckets, and only the one being made stands beside them.

Source: torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py; each moment agrees with traced ranks
within 0.5 %. Measured: +0.29 GiB for 163 million bf16 gradients (0.30 GiB of buckets), four A100.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from capienza.predict.training.parallel.moment import Moment, Step
from capienza.predict.training.parallel.states import Upkeep
from capienza.predict.training.parallel.units import Model, Weight, block_bytes


def ddp(model: Model, upkeep: Upkeep, *, is_bucket_view: bool = False, accumulates: bool = False) -> Step:
    """The moments of a step; `accumulates`: gradients of earlier microbatches are there in forward (no_sync)."""
    weights = [weight for unit in model.units for weight in unit.weights]
    trained = [weight for weight in weights if weight.is_trained]
    elements = sum(weight.elements for weight in trained)
    own = Moment(
        parameters_bytes=_blocks(weights),
        states_bytes=round(elements * upkeep.state_bytes),
        communication_bytes=sum(weight.elements * weight.element_bytes for weight in trained),
    )
    apart = 0 if is_bucket_view else _blocks(trained)
    before = replace(own, gradients_bytes=apart if accumulates else 0)
    backward, made = [], 0
    for layer in reversed(model.layers):
        fresh = [weight for unit in layer for weight in unit.weights if weight.is_trained]
        made += 0 if is_bucket_view else _blocks(fresh)
        beside = max(map(_block, fresh), default=0) if is_bucket_view or accumulates else 0
        backward.append(replace(own, gradients_bytes=apart if accumulates else made, transient_bytes=beside))
    return Step(
        forward=before,
        loss=before,
        backward=tuple(backward),
        root=replace(own, gradients_bytes=apart),
        optimizer=replace(own, gradients_bytes=apart, transient_bytes=round(elements * upkeep.step_bytes)),
        after=own,
    )


def _block(weight: Weight) -> int:
    return block_bytes(weight.elements * weight.element_bytes)


def _blocks(weights: Iterable[Weight]) -> int:
    return sum(map(_block, weights))
