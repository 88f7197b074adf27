"""Which choice stands behind each field of a recipe, so that every one of them says where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from capienza.errors import Message, template
from capienza.recipe.choices import Choice, Choices
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
    "exports_on_host": ("export_device",),
    "allocator": ("allocator",),
    "images": ("images",),
    "image_size": ("image_size",),
    "precision.base": ("frozen_dtype", "base_dtype"),
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
    "optimizer.is_paged": ("paged", "optimizer"),
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
    "evaluation.rows": ("eval_rows",),
    "evaluation.offload_steps": ("eval_accumulation_steps",),
    "adapters": ("method",),
    "adapters.rank": ("rank",),
    "adapters.alpha": ("alpha",),
    "adapters.dropout": ("dropout",),
    "adapters.targets": ("targets",),
    "adapters.dtype": ("adapter_dtype", "base_dtype"),
    "adapters.modules_to_save": ("modules_to_save", "method"),
    "adapters.is_dora": ("method",),
    "parallel.sharding": ("sharding",),
    "parallel.data_ranks": ("data_parallel",),
    "parallel.shard_ranks": ("shard_ranks", "sharding"),
    "parallel.tensor_ranks": ("tensor_parallel",),
    "parallel.pipeline_ranks": ("pipeline_parallel",),
    "parallel.parameter_dtype": ("parameter_dtype", "sharding"),
    "parallel.reduce_dtype": ("reduce_dtype", "sharding"),
    "parallel.unsharded": ("reshard_after_forward",),
    "parallel.offload": ("offload",),
    "parallel.bucket_elements": ("bucket_elements", "sharding"),
    "parallel.gradient_as_bucket_view": ("gradient_as_bucket_view",),
    "parallel.prefetch_elements": ("prefetch_elements", "sharding"),
    "parallel.persistence_elements": ("persistence_elements", "sharding"),
    "parallel.live_elements": ("live_elements", "sharding"),
    "parallel.overlaps": ("overlaps", "sharding"),
    "parallel.saves_whole": ("saves_whole", "sharding"),
    "parallel.loads_once": ("loads_once", "sharding"),
    "parallel.gathers_ahead": ("gathers_ahead", "sharding"),
    "parallel.reduces_each": ("sync_each_batch", "sharding"),
    "parallel.auto_sizes": ("auto_sizes", "sharding"),
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
WITHOUT_ORIGIN = ("left_out", "origins", "libraries", "added_tokens", "lengths", "loss.is_normalised")
"""What is no choice: stated versions, what only the tokenizer's files tell, and what a model's own code does."""
NAMED = frozenset({"method", "sharding", "optimizer", "objective", "rollout", "loss"})
HELPERS = (
    "activation_offloading", "beta", "dora", "fsdp_is_on", "loss_chunks", "loss_type", "packing_strategy",
    "padding_free", "use_vllm", "vllm_mode",
)  # fmt: skip
"""Options that stand in no field of their own: others depend on them."""
UNUSED = template("recipe.unused", "{field} has no effect in this recipe")
FOLLOWS = template("recipe.follows", "follows from {option}")


def leaves(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Every field of a recipe by its path; a part that is not there is one field."""
    for name in recipe.__struct_fields__:
        if name in WITHOUT_ORIGIN:
            continue
        found = getattr(recipe, name)
        if isinstance(found, msgspec.Struct):
            fields = (field for field in found.__struct_fields__ if f"{name}.{field}" not in WITHOUT_ORIGIN)
            yield from ((f"{name}.{field}", getattr(found, field)) for field in fields)
        else:
            yield name, found


def origins(recipe: Recipe, choices: Choices) -> tuple[Origin, ...]:
    """Where every field comes from, in the order of the recipe; then the options that only defaults depend on."""
    found = [_origin(field, value, recipe, choices) for field, value in leaves(recipe)]
    told = {str(one.source.parameters.get("field")) for one in found}
    for option in HELPERS:
        choice = choices.get(option)
        if choice is not None and choice.field is not None and choice.field not in told:
            found.append(Origin(option, _shown(choice.value), choice.source, is_stated=True))
    return tuple(found)


def unused(stated: Choices, found: tuple[Origin, ...]) -> tuple[Message, ...]:
    """Options of the card that no field of the recipe rests on, such as the dropout of adapters that are not there."""
    told = {str(one.source.parameters.get("field")) for one in found}
    return tuple(UNUSED(field=choice.field) for choice in stated.values() if choice.field not in told)


def _origin(field: str, found: Any, recipe: Recipe, choices: Choices) -> Origin:
    options = BEHIND[field]
    if field == "precision.trained":
        options = (options[OF_WEIGHTS if recipe.adapters is None else OF_ADAPTERS], "base_dtype")
    option = next(option for option in options if option in choices and not _is_assumed_base(choices[option]))
    choice = choices[option]
    if option != options[0] and option in NAMED:
        return Origin(field, _shown(found), FOLLOWS(option=option), is_stated=False)
    return Origin(field, _shown(found), choice.source, choice.field is not None)


def _is_assumed_base(choice: Choice) -> bool:
    """The format of the base, which has a source of its own."""
    return choice.value == "base" and choice.source.code == "recipe.assumed"


def _shown(found: Any) -> str:
    if isinstance(found, bool):
        return str(found).lower()
    if found is None:
        return "none"
    return " ".join(map(str, found)) if isinstance(found, tuple) else str(found)
