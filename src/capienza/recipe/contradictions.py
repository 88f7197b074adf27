"""Choices of a recipe that rule each other out, or that mean nothing without another one.

Every problem stands at the key of the card that states it; one that lies between two habits is none of the card's.
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.card.model import Card, Scalar
from capienza.errors import InputError, InputErrors, Message, template
from capienza.recipe.choices import Choice, Choices, place_in
from capienza.recipe.clashes import clashes
from capienza.recipe.elsewhere import said_elsewhere
from capienza.recipe.recipe import Recipe

NEEDS = template(
    "recipe.needs",
    "{field} means nothing here: {other} is {found}, and it needs {accepted}",
    "Delete the key, or change {other}.",
)
ADAPTED = ("lora", "dora", "qlora")
FSDP = ("fsdp1", "fsdp2")
ZERO = ("zero1", "zero2", "zero3")
COMPARED, ALONE = ("dpo", "grpo"), ("orpo", "simpo")
"""Objectives with a reference, and preferences without one."""

NEEDED: tuple[tuple[str, str, tuple[Scalar, ...]], ...] = (
    *((option, "method", ADAPTED) for option in ("rank", "targets", "dropout", "modules_to_save", "adapter_dtype")),
    ("dora", "method", ("lora", "dora", "qlora")),
    ("trained_dtype", "method", ("full",)),
    ("kbit_upcast", "quantised", (True,)),
    ("momentum", "optimizer", ("sgd", "rmsprop")),
    ("projection_rank", "optimizer", ("galore_adamw", "galore_adamw_layerwise", "apollo_adamw",
                                      "apollo_adamw_layerwise")),
    ("loss_chunk", "loss", ("chunked",)),
    ("loss_chunks", "loss", ("chunked",)),
    ("loss_shift_copy", "loss", ("full", "chunked")),
    ("reentrant", "gradient_checkpointing", ("full", "selective", "offload")),
    ("activation_offloading", "gradient_checkpointing", ("full", "offload")),
    ("packing", "objective", ("sft",)),
    ("packing_strategy", "packing", (True,)),
    *((option, "sharding", FSDP) for option in ("parameter_dtype", "reduce_dtype", "reshard_after_forward")),
    *((option, "sharding", ZERO) for option in ("bucket_elements", "overlaps", "auto_sizes")),
    *((option, "sharding", ("zero3",)) for option in ("prefetch_elements", "persistence_elements", "live_elements")),
    ("gathers_ahead", "sharding", ("fsdp1",)),
    ("saves_whole", "sharding", (*FSDP, "zero3")),
    *((option, "sharding", FSDP) for option in ("loads_once", "sync_each_batch")),
    ("gradient_as_bucket_view", "sharding", ("ddp",)),
    ("shard_ranks", "sharding", (*FSDP, *ZERO)),
    ("beta", "objective", (*COMPARED, *ALONE)),
    ("reference", "objective", COMPARED),
    *(
        (option, "objective", ("grpo",))
        for option in ("group", "rollout", "use_vllm", "vllm_mode", "prompt_tokens", "completion_tokens",
                       "reward_model")
    ),
    ("rollout_share", "rollout", ("vllm_colocate",)),
    ("rollout_sleeps", "rollout", ("vllm_colocate",)),
)  # fmt: skip
"""An option, and the values of another one without which it means nothing."""
NOTHING_ASKED: tuple[Scalar, ...] = (False, 0, "none")
"""Values that ask for nothing: they stand with everything."""


def check(card: Card, recipe: Recipe, choices: Choices) -> None:
    """Raises `InputErrors` with every contradiction of the card, in the order of their place."""
    found = [*_needed(choices), *clashes(recipe, choices)]
    problems = [InputError(message, place_in(card, _stated(choices, options))) for options, message in found]
    problems += [InputError(message, place_in(card, field)) for field, message in said_elsewhere(card, recipe)]
    if problems:
        raise InputErrors(sorted(problems, key=lambda one: (one.place.line or 0, one.place.column or 0)))


def _needed(choices: Choices) -> Iterator[tuple[tuple[str, ...], Message]]:
    for option, other, accepted in NEEDED:
        choice, beside = choices.get(option), choices.get(other)
        if choice is None or choice.field is None or choice.value in NOTHING_ASKED:
            continue
        if beside is None or beside.value not in accepted:
            yield (option,), NEEDS(field=choice.field, other=other, found=_shown(beside), accepted=_words(accepted))


def _shown(choice: Choice | None) -> str:
    return "none" if choice is None else str(choice.value).lower()


def _words(values: tuple[Scalar, ...]) -> tuple[str, ...]:
    return tuple(str(value).lower() for value in values)


def _stated(choices: Choices, options: tuple[str, ...]) -> str | None:
    """The key of the card among the options of a problem: the first one that is stated by itself, not by a name."""
    fields = [choices[option].field for option in options if option in choices and choices[option].field]
    by_name = choices["optimizer"].field
    return next((field for field in fields if field != by_name), fields[0] if fields else None)
