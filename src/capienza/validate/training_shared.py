"""What is predicted for a case on several GPUs: one rank of torchtitan, or of DDP, FSDP1 or FSDP2."""

from __future__ import annotations

from capienza.allocator.replay import replay
from capienza.allocator.settings import Settings, parse_settings
from capienza.architecture.model import Architecture
from capienza.errors import InputError
from capienza.predict.training.parallel.fsdp2 import RowPlan
from capienza.predict.training.parallel.rank import rank_peaks
from capienza.predict.training.parallel.states import adam
from capienza.predict.training.parallel.titan import Checkpointing, Llama, llama_passages, llama_units
from capienza.predict.training.parallel.woven_fsdp2 import fsdp2_program
from capienza.predict.training.runtime import WORKSPACES, workspaces_bytes
from capienza.predict.training.trained import BYTES
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
    if parallel.offload != "none" or parallel.tensor_ranks * parallel.pipeline_ranks > 1:
        raise InputError(reasons.SEVERAL_GPUS())
    try:
        found = rank_peaks(architecture, recipe, workspace_bytes=_workspace_bytes(gpu))
    except ValueError as error:
        raise InputError(reasons.SEVERAL_GPUS()) from error
    return {
        "allocated_after": float(found.after_bytes),
        "allocated_peak": float(found.allocated_bytes),
        "reserved_peak": float(found.reserved_bytes),
    }


def _workspace_bytes(gpu: str) -> int:
    """One of cuBLAS's, by the card."""
    is_hopper = any(name in gpu for name in ("H100", "H200", "GH200"))
    return workspaces_bytes(HOPPER if is_hopper else None) // WORKSPACES


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
    settings = parse_settings(recipe.allocator) if recipe.allocator else Settings()
    found: dict[str, float] = {}
    for name, steps in (("reserved_first", 1), ("reserved_peak", 2)):
        program = fsdp2_program(parts, llama_units(model), plan, workspace_bytes=_workspace_bytes(gpu), steps=steps)
        peaks = replay(program.events, settings, phases=program.phases).peaks
        found[name] = peaks.reserved_bytes
    return found | {"allocated_peak": peaks.allocated_bytes}
