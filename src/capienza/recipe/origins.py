"""Which choice stands behind each field of a recipe, so that every one of them says where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from capienza.errors import Message
from capienza.recipe.choices import Choices
from capienza.recipe.recipe import Origin, Recipe

BEHIND: dict[str, tuple[str, ...]] = {
    "framework": ("framework",),
    "framework_version": ("framework_version",),
    "objective": ("objective",),
    "method": ("method",),
    "tokens": ("tokens",),
    "microbatch": ("microbatch",),
    "accumulation": ("accumulation",),
    "is_packed": ("packing",),
    "has_padding_mask": ("padding_mask",),
    "attention": ("attention",),
    "kernels": ("kernels",),
    "is_compiled": ("compile",),
    "max_grad_norm": ("max_grad_norm",),
    "export": ("export",),
    "allocator": ("allocator",),
    "precision.base": ("base_dtype",),
    "precision.trained": ("adapter_dtype", "trained_dtype"),
    "precision.quantised": ("base_format",),
    "precision.autocast": ("mixed_precision",),
    "precision.has_scaler": ("mixed_precision",),
    "precision.widens_rest": ("kbit_upcast",),
    "precision.widens_norms": ("kbit_upcast",),
    "precision.widens_outputs": ("fp32_outputs",),
    "precision.fp8": ("fp8",),
    "precision.master": ("master_weights",),
    "optimizer.family": ("optimizer",),
    "optimizer.run": ("optimizer_run",),
    "optimizer.state_bits": ("optimizer_states", "optimizer"),
    "optimizer.is_paged": ("paged",),
    "optimizer.in_backward": ("optimizer_in_backward",),
    "optimizer.has_momentum": ("momentum", "optimizer"),
    "optimizer.projection_rank": ("projection_rank", "optimizer"),
    "optimizer.library": ("optimizer_library",),
    "checkpointing.kind": ("gradient_checkpointing",),
    "checkpointing.is_reentrant": ("reentrant",),
    "loss.kind": ("loss",),
    "loss.widens": ("loss_fp32",),
    "loss.shifts": ("loss_shift_copy",),
    "loss.chunk_tokens": ("loss_chunks", "loss_chunk", "loss"),
    "loss.keeps_outputs": ("keep_outputs",),
    "evaluation.microbatch": ("eval_microbatch",),
    "evaluation.keeps_logits": ("eval_keeps_logits",),
    "evaluation.generates": ("eval_generates",),
    "adapters": ("method",),
    "adapters.rank": ("rank",),
    "adapters.alpha": ("alpha",),
    "adapters.dropout": ("dropout",),
    "adapters.targets": ("targets",),
    "adapters.dtype": ("adapter_dtype",),
    "adapters.modules_to_save": ("modules_to_save", "method"),
    "adapters.is_dora": ("method",),
    "parallel.sharding": ("sharding",),
    "parallel.data_ranks": ("has_ranks",),
    "parallel.shard_ranks": ("shard_ranks", "sharding"),
    "parallel.tensor_ranks": ("has_ranks",),
    "parallel.pipeline_ranks": ("has_ranks",),
    "parallel.parameter_dtype": ("parameter_dtype", "sharding"),
    "parallel.reduce_dtype": ("reduce_dtype", "sharding"),
    "parallel.unsharded": ("reshard_after_forward",),
    "parallel.offload": ("offload",),
    "parallel.bucket_elements": ("bucket_elements", "sharding"),
    "parallel.gradient_as_bucket_view": ("gradient_as_bucket_view",),
    "preference": ("objective",),
    "preference.reference": ("reference",),
    "preference.reward_model": ("reward_model", "objective"),
    "preference.rollout": ("rollout",),
    "preference.rollout_share": ("rollout_share", "rollout"),
    "preference.sleeps": ("rollout_sleeps",),
    "preference.group": ("group",),
    "preference.prompt_tokens": ("prompt_tokens", "objective"),
    "preference.completion_tokens": ("completion_tokens", "objective"),
}
"""A field, and the options that decide it: the first of them that has a choice is its origin."""

OF_ADAPTERS, OF_WEIGHTS = 0, 1
WITHOUT_ORIGIN = ("left_out", "origins", "libraries", "added_tokens")
"""What is no choice: stated versions, and what only the tokenizer's files tell."""


def leaves(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Every field of a recipe by its path; a part that is not there is one field."""
    for name in recipe.__struct_fields__:
        if name in WITHOUT_ORIGIN:
            continue
        found = getattr(recipe, name)
        if isinstance(found, msgspec.Struct):
            yield from ((f"{name}.{field}", getattr(found, field)) for field in found.__struct_fields__)
        else:
            yield name, found


def origins(recipe: Recipe, choices: Choices) -> tuple[Origin, ...]:
    """Where every field comes from, in the order of the recipe."""
    return tuple(_origin(field, found, recipe, choices) for field, found in leaves(recipe))


def _origin(field: str, found: Any, recipe: Recipe, choices: Choices) -> Origin:
    options = BEHIND[field]
    if field == "precision.trained":
        options = (options[OF_WEIGHTS if recipe.adapters is None else OF_ADAPTERS],)
    choice = next(choices[option] for option in options if option in choices)
    return Origin(field, _shown(found), choice.source, choice.field is not None)


def _shown(found: Any) -> str:
    if isinstance(found, bool):
        return str(found).lower()
    if found is None:
        return "none"
    return " ".join(map(str, found)) if isinstance(found, tuple) else str(found)


def source_of(recipe: Recipe, field: str) -> Message:
    """The source of one field. Raises `KeyError` for a field that the recipe does not have."""
    return {origin.field: origin.source for origin in recipe.origins}[field]
