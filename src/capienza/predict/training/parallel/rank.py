"""One rank of a data-parallel training, from its architecture and recipe: run through the allocator.

Legend: n ranks share a copy. The passes of one GPU (`passes`) are taken as a rank's own, with weights in the format in
which they are gathered; between their parts stands what DDP, FSDP1 or FSDP2 does. `beside` is what no library shards:
constants of quantised weights and other tables (no parameters), adapters that stay out, the batch, single numbers.

What follows from the library, not from the card:
* FSDP1's flat parameters are of one format, so norms of a quantised base are not widened (measured: the same peak to
  the byte with and without PEFT's k-bit preparation).
* FSDP2 through accelerate takes all parameters up to fp32 under mixed precision, FSDP1 the trained ones
  (huggingface/accelerate#3844).
* fms-acceleration's fused adapters of quantised models stay out of FSDP: 8 bytes an element on every rank, whatever n
  (measured on two and four A100; framework_plugin_fast_quantized_peft.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.architecture.model import Architecture
from capienza.errors import InputError, template
from capienza.formats.scheme import Scheme, stored
from capienza.predict.training.base import buffers_bytes, resident_dtype, scheme_of
from capienza.predict.training.blocks.build import Builder
from capienza.predict.training.modules import pieces
from capienza.predict.training.parallel.ddp import ddp
from capienza.predict.training.parallel.fsdp1 import FlatPlan, fsdp1
from capienza.predict.training.parallel.fsdp2 import RowPlan, fsdp2
from capienza.predict.training.parallel.moment import Step
from capienza.predict.training.parallel.passage import Passage, passages_of
from capienza.predict.training.parallel.program import Program
from capienza.predict.training.parallel.states import Upkeep, adam
from capienza.predict.training.parallel.units import Model, Unit, Weight, block_bytes
from capienza.predict.training.parallel.woven_ddp import ddp_program
from capienza.predict.training.parallel.woven_fsdp1 import fsdp1_program
from capienza.predict.training.parallel.woven_fsdp2 import fsdp2_program
from capienza.predict.training.passes import training_events
from capienza.predict.training.runtime import batch_bytes, scalars_bytes
from capienza.predict.training.scope import RECIPE_NOT_COVERED
from capienza.predict.training.trained import BYTES, num_trained, trained_tensors
from capienza.recipe.recipe import Recipe

NOT_COVERED = template(
    "training.sharding-not-covered",
    "what a GPU holds under {sharding} is not predicted pass by pass",
    "ddp, fsdp1 and fsdp2 are; a trace of one rank (capienza.trace, world_size) sees any other",
)
FP32 = 4
CODES_BYTES = 2
"""Packed codes are gathered as numbers of 16 bits (bitsandbytes' quant_storage, fms-acceleration's views)."""
PACKED = ("", "qweight", "qzeros")
"""Of the tensors of a quantised matrix, those that are parameters: bitsandbytes' codes, GPTQ's words."""
FUSED_ADAPTERS_BYTES = 8
MOST_MICROBATCHES = 2


class RankPeaks(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one rank: allocated when training has returned, and the peaks of its steps, each at its own moment."""

    after_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    step: Step


class Shared(msgspec.Struct, frozen=True):
    """What a library shards, and what stays whole on every rank."""

    model: Model
    beside_bytes: int


def rank_peaks(
    architecture: Architecture,
    recipe: Recipe,
    *,
    workspace_bytes: int,
    config: Mapping[str, Any] | None = None,
    scheme: Scheme | None = None,
) -> RankPeaks:
    """The peaks of a rank of DDP, FSDP1 or FSDP2. `workspace_bytes`: one of cuBLAS's.

    Raises `InputError` for a model with a part that the passes do not cover, and for another way to share.
    """
    if recipe.objective != "sft":
        found = f"{recipe.parallel.sharding}, {recipe.objective}"
        raise InputError(RECIPE_NOT_COVERED(field="sharding", value=found))
    shared = shared_of(architecture, recipe, scheme)
    upkeep = _upkeep(recipe)
    passages = _passages(architecture, recipe, config)
    step, program = _step_and_program(shared.model, recipe, upkeep, passages, workspace_bytes, architecture.hidden_size)
    settings = parse_settings(recipe.allocator) if recipe.allocator else Settings()
    peaks = replay(program.events, settings).peaks
    beside = shared.beside_bytes + batch_bytes(recipe) + scalars_bytes(recipe)
    return RankPeaks(
        after_bytes=step.after.held_bytes + beside + 2 * workspace_bytes,
        allocated_bytes=peaks.allocated_bytes + beside,
        reserved_bytes=peaks.reserved_bytes + beside,
        step=step,
    )


def _step_and_program(
    model: Model, recipe: Recipe, upkeep: Upkeep, passages: list[Passage], workspace_bytes: int, width: int
) -> tuple[Step, Program]:
    parallel, microbatches = recipe.parallel, min(recipe.accumulation, MOST_MICROBATCHES)
    travel = BYTES[parallel.parameter_dtype] if parallel.parameter_dtype else None
    several = microbatches > 1
    if parallel.sharding == "ddp":
        is_view = parallel.gradient_as_bucket_view
        return (
            ddp(model, upkeep, is_bucket_view=is_view, accumulates=several),
            ddp_program(
                passages,
                model,
                upkeep,
                workspace_bytes=workspace_bytes,
                is_bucket_view=is_view,
                microbatches=microbatches,
            ),
        )
    if parallel.sharding == "fsdp1":
        plan = FlatPlan(
            ranks=parallel.shard_ranks,
            upkeep=upkeep,
            travel_bytes=travel,
            widens_trained=travel is not None,
            prefetches=not _is_reentrant(recipe),
            accumulates_whole=several,
        )
        held = _held_bytes(recipe, width)
        return fsdp1(model, plan), fsdp1_program(
            passages,
            model,
            plan,
            workspace_bytes=workspace_bytes,
            held_bytes=held,
            microbatches=microbatches,
            has_loss=True,
        )
    if parallel.sharding == "fsdp2":
        rows = RowPlan(
            ranks=parallel.shard_ranks,
            upkeep=upkeep,
            travel_bytes=travel,
            reduce_bytes=BYTES[parallel.reduce_dtype] if parallel.reduce_dtype else None,
            reshards="none" if parallel.unsharded else "all",
            accumulates_whole=several,
        )
        return fsdp2(model, rows), fsdp2_program(
            passages, model, rows, workspace_bytes=workspace_bytes, microbatches=microbatches, has_loss=True
        )
    raise InputError(NOT_COVERED(sharding=parallel.sharding))


def shared_of(architecture: Architecture, recipe: Recipe, scheme: Scheme | None = None) -> Shared:
    """The units of a model: a layer's frozen weights together and each adapter by itself; or all that is trained."""
    scheme, dtype = scheme_of(recipe, scheme), resident_dtype(recipe)
    is_full = recipe.adapters is None
    wide = recipe.parallel.sharding == "fsdp2" and recipe.parallel.parameter_dtype and recipe.framework != "torchtitan"
    found: dict[int | None, list[Weight]] = {}
    beside = buffers_bytes(architecture, recipe)
    for piece in pieces(architecture, recipe):
        for part in stored(piece.name, piece.shape, piece.role, scheme, dtype, transposed=piece.transposed):
            if part.dtype == dtype and part.name == piece.name:
                weight = Weight(piece.shape, FP32 if wide else BYTES[dtype], is_trained=is_full)
            elif part.name == piece.name or part.name.rpartition(".")[2] in PACKED:
                weight = Weight((part.bytes // CODES_BYTES,), CODES_BYTES, is_trained=False)
            else:
                beside += piece.count * block_bytes(part.bytes)
                continue
            found.setdefault(piece.layer, []).extend([weight] * piece.count)
    adapters: dict[int | None, list[Unit]] = {}
    if not is_full and _is_mixed(recipe):
        _mix(architecture, recipe, found)
    elif not is_full:
        beside += _adapters(architecture, recipe, adapters)
    layers = tuple(
        (Unit("layer", tuple(found[layer.index])), *adapters.get(layer.index, ())) for layer in architecture.layers
    )
    return Shared(Model(layers=layers, root=(Unit("root", tuple(found.get(None, ()))),)), beside)


def _is_mixed(recipe: Recipe) -> bool:
    """LitGPT wraps blocks with their adapters: a flat parameter of which all gets a gradient (litgpt#1538)."""
    return recipe.framework == "litgpt" and recipe.parallel.sharding == "fsdp1"


def _mix(architecture: Architecture, recipe: Recipe, found: dict[int | None, list[Weight]]) -> None:
    for layer, weights in found.items():
        if layer is not None:
            found[layer] = [replace(weight, is_trained=True, has_states=False) for weight in weights]
    for one in trained_tensors(architecture, recipe):
        found[one.layer] += [Weight(one.shape, one.bytes_per_element)] * one.count


def _adapters(architecture: Architecture, recipe: Recipe, by_layer: dict[int | None, list[Unit]]) -> int:
    """Units of the adapters, by layer; or what they hold where they stay out of the library."""
    trained = trained_tensors(architecture, recipe)
    base = recipe.precision.quantised or ""
    # A GPTQ base under FSDP is fms-acceleration's; with plain kernels its adapters are sharded as others are.
    is_fused = recipe.kernels == "foak" or (base.startswith("gptq") and recipe.kernels != "transformers")
    is_out = bool(base) and is_fused
    if is_out and recipe.parallel.sharding == "fsdp1":
        return FUSED_ADAPTERS_BYTES * num_trained(trained)
    for one in trained:
        units = by_layer.setdefault(one.layer, [])
        # Named by their place, so that layers that are alike are equal.
        weight = Weight(one.shape, one.bytes_per_element)
        units += [Unit(f"adapter {len(units) + place}", (weight,)) for place in range(one.count)]
    return 0


def _passages(architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None) -> list[Passage]:
    """A microbatch of one GPU whose weights come in the format in which they are gathered."""
    travel, precision = recipe.parallel.parameter_dtype, recipe.precision
    if recipe.parallel.sharding in ("fsdp1", "fsdp2"):
        precision = replace(precision, widens_norms=False, widens_rest=False)
        if travel is not None:
            precision = replace(precision, base=travel, trained=travel)
    builder = Builder(architecture, replace(recipe, precision=precision), config)
    return passages_of(training_events(builder.decoder(list(range(len(architecture.layers)))), recipe, 1))


def _is_reentrant(recipe: Recipe) -> bool:
    """Layers run without gradients first.

    FSDP1 then sees nothing that it would have to gather ahead for backward (`_needs_pre_backward_unshard`).
    """
    return recipe.checkpointing.kind == "full" and recipe.checkpointing.is_reentrant


def _held_bytes(recipe: Recipe, width: int) -> int:
    """What hooks hold of a layer: see `woven_fsdp1`."""
    is_held = recipe.adapters is not None and _is_reentrant(recipe)
    return recipe.rows_tokens * width * BYTES[recipe.precision.base] if is_held else 0


def _upkeep(recipe: Recipe) -> Upkeep:
    """Adam's states in the format of what is trained; other optimizers are of the closed forms of `states`."""
    adapters = recipe.adapters
    is_wide = recipe.parallel.parameter_dtype is not None and recipe.parallel.sharding != "ddp"
    dtype = "fp32" if is_wide else (adapters.dtype if adapters is not None else recipe.precision.trained)
    return adam(BYTES[dtype], is_foreach=recipe.optimizer.run == "foreach")
