"""What is predicted for a training case: one figure for each counter that cases log.

Legend: allocated, reserved, device as in `ledger.counters`, in bytes on one GPU;
    allocated_after      allocated when training has returned; allocated_stepped: with the last step's gradients
    allocated_loaded     allocated when the model is on the GPU; with adapters: allocated_adapted
    ..._peak             the highest of all phases
    reserved_loaded, device_loaded, device_context
"""

from __future__ import annotations

import msgspec

from capienza.architecture.model import Architecture
from capienza.catalog.asked import claim_of
from capienza.catalog.capacity import capacity_of
from capienza.catalog.devices import usual_cuda_share
from capienza.errors import InputError, Message, Parameter
from capienza.ledger.counters import Counters, counters_of
from capienza.ledger.entry import Entry
from capienza.ledger.ledger import Ledger
from capienza.ledger.phase import Phase
from capienza.predict.gpu import NO_GPU, GpuFacts
from capienza.predict.training.answer import FROM_RECIPE, TrainingAnswer, answer_of
from capienza.predict.training.base import base_of
from capienza.predict.training.entries import exact
from capienza.predict.training.ledger import phases_of
from capienza.predict.training.parallel.titan_rank import is_titan
from capienza.predict.training.scope import taken_for_granted
from capienza.recipe.recipe import Recipe
from capienza.validate.training_shared import shared_figures

DEVICE = "gpu:0"


class Figures(msgspec.Struct, frozen=True):
    """`bytes_by_kind` for each kind of figure; what is not there has its reason in `missing`.

    `weights_bytes` are those of this GPU, `is_compared` says that its kernels were compared with a trace.
    """

    bytes_by_kind: dict[str, float]
    floors: dict[str, int]
    missing: Message | None = None
    weights_bytes: float = 0.0
    is_compared: bool = True


def figures(architecture: Architecture, recipe: Recipe, gpu: str) -> Figures:
    """The figures of one GPU. Raises `InputError` for what the predictor does not cover at all."""
    key = (architecture.model_type, architecture.num_parameters, len(architecture.layers), gpu), _shape(recipe)
    if key not in _FOUND:
        _FOUND[key] = _figures(architecture, recipe, gpu)
    return _FOUND[key]


_FOUND: dict[object, Figures] = {}
"""Cases repeat each other: each run is predicted once."""


def _shape(recipe: Recipe) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(recipe, origins=(), left_out=()))


def _figures(architecture: Architecture, recipe: Recipe, gpu: str) -> Figures:
    if recipe.parallel.data_ranks * recipe.parallel.tensor_ranks * recipe.parallel.pipeline_ranks > 1:
        return Figures(
            shared_figures(architecture, recipe, gpu),
            {},
            weights_bytes=base_of(architecture, recipe).weights_bytes / _shares(recipe),
            is_compared=is_titan(architecture, recipe) or not taken_for_granted(architecture, recipe),
        )
    answer = answer_of(architecture, recipe).on(gpu_facts(gpu))
    phases = {one.phase: one for one in counters_of(Ledger(entries=tuple(_entries(answer)), gpus=(DEVICE,)), DEVICE)}
    found: dict[str, float] = {"allocated_after": answer.resident.after_bytes}
    found["allocated_stepped"] = found["allocated_after"] + answer.resident.gradients_bytes
    base = answer.resident.base
    found["allocated_loaded"] = base.total_bytes + answer.resident.loading.slack_bytes
    found["allocated_adapted"] = found["allocated_loaded"] + answer.resident.adapters_bytes
    floors: dict[str, int] = {}
    missing = None
    if answer.passes is None:
        missing = answer.notes[-1] if answer.notes else None
    else:
        found["allocated_peak"] = max(_amounts(phases, "allocated"))
        floor = max(one.allocated.amount.floor for one in phases.values())
        floors = dict.fromkeys(("allocated_peak", "reserved_peak", "device_peak"), floor)
    loaded = phases.get(Phase.LOAD)
    context = answer.context
    if context is not None:
        found["device_context"] = context.readings[0]
    if answer.reserved is not None:
        found["reserved_peak"] = max(_amounts(phases, "reserved"))
        if context is not None:
            found["device_peak"] = max(_amounts(phases, "on_device"))
        if loaded is not None:
            # Cases read it before the first step, when the adapters are there.
            found["reserved_loaded"] = loaded.reserved.amount.expected + answer.resident.adapters_bytes
            found["device_loaded"] = loaded.on_device.amount.expected
    return Figures(
        found,
        floors,
        missing,
        weights_bytes=base.weights_bytes,
        is_compared=answer.passes is not None and not answer.passes.assumed,
    )


def _shares(recipe: Recipe) -> int:
    """Among how many GPUs the weights are divided."""
    parallel = recipe.parallel
    sharded = parallel.shard_ranks if parallel.sharding in ("fsdp1", "fsdp2", "zero3") else 1
    return sharded * parallel.tensor_ranks * parallel.pipeline_ranks


def _amounts(phases: dict[Phase, Counters], counter: str) -> list[float]:
    return [float(getattr(one, counter).amount.expected) for one in phases.values()]


def _entries(answer: TrainingAnswer) -> list[Entry]:
    held = answer.resident.base.weights_bytes
    source = FROM_RECIPE(model_type=answer.architecture.model_type)
    words: dict[str, Parameter] = {"model_type": answer.architecture.model_type}
    weights = exact("weights", phases_of(answer.recipe), DEVICE, held, FROM_RECIPE(**words), source)
    return [weights, *answer.entries(DEVICE)]


def gpu_facts(name: str) -> GpuFacts:
    """What the catalogue knows of a card by the name that a case gives it."""
    try:
        claim = claim_of(name)
    except InputError:
        return NO_GPU
    found = capacity_of(claim)
    total = found.cuda_total_bytes
    if total is None and found.smallest_bytes is not None:
        total = int(found.smallest_bytes * usual_cuda_share())
    return GpuFacts(total, " ".join(claim.candidates))
