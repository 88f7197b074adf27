"""What is predicted for a case on several GPUs: one rank of torchtitan's FSDP2, or of FSDP1 through accelerate.

Legend: a rank's own figures, as the cases log them. FSDP1 adds the moments of its shards to what the passes hold at
the same moment; torchtitan's program is run through the allocator.
"""

from __future__ import annotations

from collections.abc import Iterable

from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.architecture.model import Architecture
from capienza.errors import InputError
from capienza.predict.training.modules import pieces
from capienza.predict.training.parallel.fsdp1 import FlatPlan, fsdp1
from capienza.predict.training.parallel.fsdp2 import RowPlan
from capienza.predict.training.parallel.states import adam
from capienza.predict.training.parallel.titan import Checkpointing, Llama, llama_passages, llama_units
from capienza.predict.training.parallel.units import Model, Unit, Weight
from capienza.predict.training.parallel.woven_fsdp2 import fsdp2_program
from capienza.predict.training.passes import passes
from capienza.predict.training.runtime import batch_bytes, scalars_bytes, workspaces_bytes
from capienza.predict.training.trained import BYTES, trained_tensors
from capienza.recipe.recipe import Recipe
from capienza.validate import training_reasons as reasons

LOSS_CHUNKS = 8
HOPPER = (9, 0)
LLAMAS = ("llama", "mistral", "qwen2", "qwen3")


def shared_figures(architecture: Architecture, recipe: Recipe, gpu: str) -> dict[str, float]:
    """Figures of one rank by kind. Raises `InputError` for a way to share that is not covered."""
    if recipe.is_compiled or recipe.precision.fp8:
        raise InputError(reasons.COMPILED())
    parallel = recipe.parallel
    if parallel.sharding == "fsdp2" and recipe.framework == "torchtitan" and architecture.model_type in LLAMAS:
        return _titan(architecture, recipe, gpu)
    if recipe.framework == "litgpt":
        raise InputError(reasons.WHOLE_FLAT())
    is_plain = recipe.precision.quantised is None and parallel.offload == "none"
    if parallel.sharding == "fsdp1" and is_plain and parallel.tensor_ranks == parallel.pipeline_ranks == 1:
        return _flat(architecture, recipe)
    raise InputError(reasons.SEVERAL_GPUS())


def _titan(architecture: Architecture, recipe: Recipe, gpu: str) -> dict[str, float]:
    attention, mlp = architecture.layers[0].attention, architecture.layers[0].mlp
    if attention is None or mlp is None:
        raise InputError(reasons.SEVERAL_GPUS())
    parallel, kind = recipe.parallel, recipe.checkpointing.kind
    model = Llama(
        layers=len(architecture.layers),
        hidden=architecture.hidden_size,
        heads=attention.num_attention_heads,
        key_heads=attention.num_key_value_heads,
        head=attention.key_head_dim,
        feed_forward=mlp.intermediate_size,
        vocabulary=architecture.vocab_size,
        tensor_ranks=parallel.tensor_ranks,
    )
    plan = RowPlan(
        ranks=parallel.shard_ranks,
        upkeep=adam(BYTES["fp32"], is_foreach=recipe.optimizer.run == "foreach"),
        travel_bytes=BYTES[parallel.parameter_dtype or "fp32"],
        reduce_bytes=BYTES[parallel.reduce_dtype or "fp32"],
        reshards="none" if parallel.unsharded else "all_but_last",
    )
    checkpointing: Checkpointing = "full" if kind == "offload" else kind
    parts = llama_passages(
        model,
        rows=recipe.microbatch,
        tokens=recipe.tokens,
        checkpointing=checkpointing,
        loss_chunks=LOSS_CHUNKS if recipe.loss.kind == "chunked" else 1,
    )
    is_hopper = any(name in gpu for name in ("H100", "H200", "GH200"))
    workspace = workspaces_bytes(HOPPER if is_hopper else None) // 2
    settings = parse_settings(recipe.allocator) if recipe.allocator else Settings()
    found: dict[str, float] = {}
    for name, steps in (("reserved_first", 1), ("reserved_peak", 2)):
        program = fsdp2_program(parts, llama_units(model), plan, workspace_bytes=workspace, steps=steps)
        peaks = replay(program.events, settings).peaks
        found[name] = peaks.reserved_bytes
    return found | {"allocated_peak": peaks.allocated_bytes}


def _flat(architecture: Architecture, recipe: Recipe) -> dict[str, float]:
    plan = FlatPlan(
        ranks=recipe.parallel.shard_ranks,
        upkeep=adam(
            BYTES["fp32" if recipe.parallel.parameter_dtype else recipe.precision.trained],
            is_foreach=recipe.optimizer.run == "foreach",
        ),
        travel_bytes=BYTES[recipe.parallel.parameter_dtype] if recipe.parallel.parameter_dtype else None,
        widens_trained=recipe.parallel.parameter_dtype is not None,
    )
    step = fsdp1(_units(architecture, recipe), plan)
    beside = batch_bytes(recipe) + scalars_bytes(recipe) + workspaces_bytes(None)
    found = passes(architecture, recipe)
    back = found.backward.total_bytes - found.backward.gradients_bytes
    peak = max(
        step.loss.held_bytes + found.forward.total_bytes,
        max(moment.held_bytes for moment in step.backward) + back,
        step.root.held_bytes,
        step.optimizer.held_bytes,
    )
    return {"allocated_after": float(step.after.held_bytes + beside), "allocated_peak": float(peak + beside)}


def _units(architecture: Architecture, recipe: Recipe) -> Model:
    """A layer is a unit of its frozen weights and one for each trained module beside them; the rest is the root."""
    is_full = recipe.adapters is None
    by_layer: dict[int | None, list[Weight]] = {}
    for one in pieces(architecture, recipe):
        item = BYTES[recipe.precision.trained if is_full else recipe.precision.base]
        by_layer.setdefault(one.layer, []).extend([Weight(one.shape, item, is_trained=is_full)] * one.count)
    beside: dict[int | None, list[Unit]] = {}
    for trained in () if is_full else trained_tensors(architecture, recipe):
        weight = Weight(trained.shape, trained.bytes_per_element)
        beside.setdefault(trained.layer, []).append(Unit(trained.name, (weight,) * trained.count))
    layers = tuple(
        (Unit("layer", tuple(by_layer[layer.index])), *_alike(beside.get(layer.index, ())))
        for layer in architecture.layers
    )
    return Model(layers=layers, root=(Unit("root", tuple(by_layer.get(None, ()))),))


def _alike(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """Units by their place in a layer: layers that are alike are equal."""
    return tuple(Unit(f"adapter {place}", one.weights) for place, one in enumerate(units))
