"""What is predicted for a case on several GPUs: one rank of torchtitan, or of DDP, FSDP1, FSDP2 or ZeRO."""

from __future__ import annotations

from collections.abc import Iterable

from capienza.allocator.replay import replay
from capienza.allocator.result import Peaks
from capienza.allocator.settings import Settings, parse_settings
from capienza.architecture.model import Architecture
from capienza.errors import InputError
from capienza.ledger.phase import Phase
from capienza.predict.training.parallel.rank import rank_of, rank_peaks
from capienza.predict.training.parallel.titan_rank import is_titan
from capienza.predict.training.runtime import WORKSPACES, workspaces_bytes
from capienza.recipe.recipe import Recipe
from capienza.validate import training_reasons as reasons

HOPPER = (9, 0)


def shared_figures(architecture: Architecture, recipe: Recipe, gpu: str) -> dict[str, float]:
    """Figures of one rank by kind. Raises `InputError` for a way to share that is not covered."""
    if recipe.is_compiled or recipe.precision.fp8:
        raise InputError(reasons.COMPILED())
    workspace = _workspace_bytes(gpu)
    if is_titan(architecture, recipe):
        return _of_steps(architecture, recipe, workspace)
    if recipe.parallel.offload != "none":
        raise InputError(reasons.SEVERAL_GPUS())
    try:
        found = rank_peaks(architecture, recipe, workspace_bytes=workspace)
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


def _of_steps(architecture: Architecture, recipe: Recipe, workspace_bytes: int) -> dict[str, float]:
    """What torchtitan logs: what is reserved at most in the first step, and in all."""
    program = rank_of(architecture, recipe, workspace_bytes=workspace_bytes).program
    settings = parse_settings(recipe.allocator) if recipe.allocator else Settings()
    found = replay(program.events, settings, phases=program.phases)
    return {
        "reserved_first": max(span.reserved_bytes for span in _first(found.phases)),
        "reserved_peak": found.peaks.reserved_bytes,
        "allocated_peak": found.peaks.allocated_bytes,
    }


def _first(spans: Iterable[Peaks]) -> Iterable[Peaks]:
    for span in spans:
        yield span
        if span.name == Phase.OPTIMIZER_STEP_FIRST:
            return
