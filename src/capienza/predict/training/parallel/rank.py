"""One rank of a data-parallel training, from its architecture and recipe: run through the allocator.

The passes of one GPU (`passes`) are taken as a rank's own, with weights in the format in which they are gathered;
between their parts stands what DDP, FSDP1, FSDP2 or DeepSpeed does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.architecture.model import Architecture
from capienza.errors import InputError, template
from capienza.formats.scheme import Scheme
from capienza.predict.training.blocks.build import Builder
from capienza.predict.training.parallel.ddp import ddp
from capienza.predict.training.parallel.fsdp1 import FlatPlan, fsdp1
from capienza.predict.training.parallel.fsdp2 import RowPlan, fsdp2
from capienza.predict.training.parallel.moment import Step
from capienza.predict.training.parallel.passage import Passage, passages_of
from capienza.predict.training.parallel.program import Program
from capienza.predict.training.parallel.shared_model import Shared, shared_of
from capienza.predict.training.parallel.titan_rank import is_titan, titan_rank
from capienza.predict.training.parallel.units import Model
from capienza.predict.training.parallel.upkeep import upkeep_of
from capienza.predict.training.parallel.woven_ddp import ddp_program
from capienza.predict.training.parallel.woven_fsdp1 import fsdp1_program
from capienza.predict.training.parallel.woven_fsdp2 import fsdp2_program
from capienza.predict.training.parallel.woven_zero import zero_program
from capienza.predict.training.parallel.zero import ZeroPlan, zero, zero_auto
from capienza.predict.training.passes import evaluation_events, training_events
from capienza.predict.training.runtime import batch_bytes, scalars_bytes
from capienza.predict.training.scope import RECIPE_NOT_COVERED
from capienza.predict.training.trained import BYTES
from capienza.recipe.recipe import Recipe

NOT_COVERED = template(
    "training.sharding-not-covered",
    "what a GPU holds under {sharding} is not predicted pass by pass",
    "ddp, fsdp1, fsdp2 and zero1 to zero3 are; a trace of one rank (capienza.trace, world_size) sees any other",
)
DIVIDED_LAYERS = template(
    "training.divided-layers",
    "what a GPU holds where {field} divides each copy is not predicted for {model_type}",
    "trace a rank of the program itself (predict_peak with world_size), or measure the run on the intended GPUs",
)
MOST_MICROBATCHES = 2
STAGES: dict[str, Literal[1, 2, 3]] = {"zero1": 1, "zero2": 2, "zero3": 3}


class RankPeaks(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one rank: allocated when training has returned, and the peaks of its steps, each at its own moment."""

    after_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    step: Step


class Rank(msgspec.Struct, frozen=True):
    """One rank's steps: the moments in closed form, what its program takes and gives back, what no library shards.

    `has_batch`: the program itself holds the batch.
    """

    step: Step
    program: Program
    shared: Shared
    has_batch: bool = False


def rank_peaks(
    architecture: Architecture,
    recipe: Recipe,
    *,
    workspace_bytes: int,
    config: Mapping[str, Any] | None = None,
    scheme: Scheme | None = None,
) -> RankPeaks:
    """The peaks of a rank. `workspace_bytes`: one of cuBLAS's.

    Raises `InputError` for a model with a part that the passes do not cover, and for another way to share.
    """
    rank = rank_of(architecture, recipe, workspace_bytes=workspace_bytes, config=config, scheme=scheme)
    settings = parse_settings(recipe.allocator) if recipe.allocator else Settings()
    peaks = replay(rank.program.events, settings, phases=rank.program.phases).peaks
    beside = rank.shared.beside_bytes + inputs_bytes(rank, recipe)
    return RankPeaks(
        after_bytes=rank.step.after.held_bytes + beside + 2 * workspace_bytes,
        allocated_bytes=peaks.allocated_bytes + beside,
        reserved_bytes=peaks.reserved_bytes + beside,
        step=rank.step,
    )


def rank_of(
    architecture: Architecture,
    recipe: Recipe,
    *,
    workspace_bytes: int,
    config: Mapping[str, Any] | None = None,
    scheme: Scheme | None = None,
) -> Rank:
    """Two steps of a rank, and an evaluation pass where the recipe has one. Raises as `rank_peaks`."""
    parallel = recipe.parallel
    if recipe.objective != "sft":
        raise InputError(RECIPE_NOT_COVERED(field="sharding", value=f"{parallel.sharding}, {recipe.objective}"))
    if is_titan(architecture, recipe) and parallel.pipeline_ranks == 1:
        step, program, model = titan_rank(architecture, recipe, workspace_bytes)
        return Rank(step, program, Shared(model, 0), has_batch=True)
    for field in ("tensor", "pipeline"):
        if getattr(parallel, f"{field}_ranks") > 1:
            raise InputError(DIVIDED_LAYERS(field=f"placement.{field}_parallel", model_type=architecture.model_type))
    make = MAKERS.get(parallel.sharding)
    if make is None:
        raise InputError(NOT_COVERED(sharding=parallel.sharding))
    shared = shared_of(architecture, recipe, scheme)
    passages = _passages(architecture, recipe, config)
    evaluation = _evaluation(architecture, recipe, config)
    step, program = make(shared.model, architecture, recipe, passages, workspace_bytes, evaluation)
    return Rank(step, program, shared)


def inputs_bytes(rank: Rank, recipe: Recipe) -> int:
    """The batch and single numbers of the loop, beside the program."""
    return 0 if rank.has_batch else batch_bytes(recipe) + scalars_bytes(recipe)


Made = tuple[Step, Program]
Passages = Sequence[Passage]


def _microbatches(recipe: Recipe) -> int:
    return min(recipe.accumulation, MOST_MICROBATCHES)


def _waits(recipe: Recipe) -> bool:
    """Do gradients stay whole until the last microbatch of an update?"""
    return recipe.accumulation > 1 and not recipe.parallel.reduces_each


def _travel_bytes(recipe: Recipe) -> int | None:
    dtype = recipe.parallel.parameter_dtype
    return BYTES[dtype] if dtype else None


def _ddp(
    model: Model, architecture: Architecture, recipe: Recipe, passages: Passages, workspace: int, evaluation: Passages
) -> Made:
    is_view, upkeep = recipe.parallel.gradient_as_bucket_view, upkeep_of(architecture, recipe)
    program = ddp_program(
        passages,
        model,
        upkeep,
        workspace_bytes=workspace,
        is_bucket_view=is_view,
        microbatches=_microbatches(recipe),
        evaluation=evaluation,
    )
    return ddp(model, upkeep, is_bucket_view=is_view, accumulates=recipe.accumulation > 1), program


def _fsdp1(
    model: Model, architecture: Architecture, recipe: Recipe, passages: Passages, workspace: int, evaluation: Passages
) -> Made:
    travel = _travel_bytes(recipe)
    plan = FlatPlan(
        ranks=recipe.parallel.shard_ranks,
        upkeep=upkeep_of(architecture, recipe),
        travel_bytes=travel,
        widens_trained=travel is not None,
        prefetches=recipe.parallel.gathers_ahead and not _is_reentrant(recipe),
        accumulates_whole=_waits(recipe),
        offloads=recipe.parallel.offload == "parameters",
    )
    program = fsdp1_program(
        passages,
        model,
        plan,
        workspace_bytes=workspace,
        held_bytes=_held_bytes(recipe, architecture.hidden_size),
        microbatches=_microbatches(recipe),
        has_loss=True,
        evaluation=evaluation,
    )
    return fsdp1(model, plan), program


def _fsdp2(
    model: Model, architecture: Architecture, recipe: Recipe, passages: Passages, workspace: int, evaluation: Passages
) -> Made:
    parallel = recipe.parallel
    plan = RowPlan(
        ranks=parallel.shard_ranks,
        upkeep=upkeep_of(architecture, recipe),
        travel_bytes=_travel_bytes(recipe),
        reduce_bytes=BYTES[parallel.reduce_dtype] if parallel.reduce_dtype else None,
        reshards="none" if parallel.unsharded else "all",
        accumulates_whole=_waits(recipe),
        offloads=parallel.offload == "parameters",
    )
    program = fsdp2_program(
        passages,
        model,
        plan,
        workspace_bytes=workspace,
        microbatches=_microbatches(recipe),
        has_loss=True,
        evaluation=evaluation,
    )
    return fsdp2(model, plan), program


def _zero(
    model: Model, architecture: Architecture, recipe: Recipe, passages: Passages, workspace: int, evaluation: Passages
) -> Made:
    plan = zero_plan(architecture, recipe)
    program = zero_program(
        passages,
        model,
        plan,
        workspace_bytes=workspace,
        microbatches=_microbatches(recipe),
        evaluation=evaluation,
    )
    return zero(model, plan), program


Maker = Callable[[Model, Architecture, Recipe, Passages, int, Passages], Made]
MAKERS: dict[str, Maker] = {
    "ddp": _ddp, "fsdp1": _fsdp1, "fsdp2": _fsdp2, "zero1": _zero, "zero2": _zero, "zero3": _zero,
}  # fmt: skip


def zero_plan(architecture: Architecture, recipe: Recipe) -> ZeroPlan:
    """DeepSpeed's options as the recipe has them; those that it leaves open are DeepSpeed's own defaults."""
    parallel = recipe.parallel
    stage = STAGES[parallel.sharding]
    stated = {
        "reduce_bucket": parallel.bucket_elements,
        "prefetch": parallel.prefetch_elements,
        "persists": parallel.persistence_elements,
        "live": parallel.live_elements,
    }
    plan = ZeroPlan(
        stage=stage,
        ranks=parallel.shard_ranks,
        offload=parallel.offload,
        overlaps=parallel.overlaps if parallel.overlaps is not None else stage == 3,
        state_bytes=round(upkeep_of(architecture, recipe).state_bytes),
    )
    if parallel.auto_sizes:
        plan = zero_auto(plan, architecture.hidden_size)
    return replace(plan, **{name: elements for name, elements in stated.items() if elements is not None})


def _passages(architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None) -> list[Passage]:
    """A microbatch of one GPU whose weights come in the format in which they are gathered."""
    builder = Builder(architecture, _gathered(recipe), config)
    return passages_of(training_events(builder.decoder(list(range(len(architecture.layers)))), recipe, 1))


def _evaluation(architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None) -> list[Passage]:
    if not recipe.evaluation.microbatch:
        return []
    asked = replace(_gathered(recipe), microbatch=recipe.evaluation.microbatch)
    model = Builder(architecture, asked, config).decoder(list(range(len(architecture.layers))))
    return passages_of(evaluation_events(model, asked))


def _gathered(recipe: Recipe) -> Recipe:
    if recipe.parallel.sharding not in ("fsdp1", "fsdp2"):
        return recipe
    travel = recipe.parallel.parameter_dtype
    precision = replace(recipe.precision, widens_norms=False, widens_rest=False)
    if travel is not None:
        precision = replace(precision, base=travel, trained=travel)
    return replace(recipe, precision=precision)


def _is_reentrant(recipe: Recipe) -> bool:
    """Layers run without gradients first.

    FSDP1 then sees nothing that it would have to gather ahead for backward (`_needs_pre_backward_unshard`).
    """
    return recipe.checkpointing.kind == "full" and recipe.checkpointing.is_reentrant


def _held_bytes(recipe: Recipe, width: int) -> int:
    """What hooks hold of a layer: see `woven_fsdp1`."""
    is_held = recipe.adapters is not None and _is_reentrant(recipe)
    return recipe.rows_tokens * width * BYTES[recipe.precision.base] if is_held else 0
