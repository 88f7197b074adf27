"""Every kind of change, in one table."""

from __future__ import annotations

from collections.abc import Callable

from capienza.decide.alternatives.change import Kind, Proposals
from capienza.decide.alternatives.levers.allocator import allocators
from capienza.decide.alternatives.levers.attention import attentions
from capienza.decide.alternatives.levers.capacity import capacities
from capienza.decide.alternatives.levers.ends import evaluations, exports
from capienza.decide.alternatives.levers.engine_options import engine_budgets
from capienza.decide.alternatives.levers.formats import cache_types, weight_formats
from capienza.decide.alternatives.levers.llama_options import llama_budgets
from capienza.decide.alternatives.levers.offload import offloads
from capienza.decide.alternatives.levers.placing import placements
from capienza.decide.alternatives.levers.recipe import (
    adapters,
    checkpointing,
    losses,
    methods,
    microbatches,
    optimizers,
)
from capienza.decide.alternatives.scene import Scene


def _budgets(scene: Scene) -> Proposals:
    engine = scene.card.engine
    is_llama = scene.card.task == "inference" and engine is not None and engine.name == "llama.cpp"
    return llama_budgets(scene) if is_llama else engine_budgets(scene)


LEVERS: dict[Kind, Callable[[Scene], Proposals]] = {
    "capacity": capacities,
    "weight_format": weight_formats,
    "kv_type": cache_types,
    "microbatch": microbatches,
    "checkpointing": checkpointing,
    "optimizer": optimizers,
    "method": methods,
    "adapters": adapters,
    "attention": attentions,
    "loss": losses,
    "evaluation": evaluations,
    "export": exports,
    "offload": offloads,
    "placement": placements,
    "engine_budget": _budgets,
    "allocator": allocators,
}
