"""Which recipes the passes cover, and what is taken for granted of the others."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.errors import InputError, Message, template
from capienza.predict.training.blocks.build import OF_TORCHTUNE
from capienza.predict.training.blocks.linear import FOUR_BIT
from capienza.predict.training.blocks.traits import COMPARED
from capienza.predict.training.preference import TILES_SINCE
from capienza.predict.training.releases import release
from capienza.recipe.recipe import Recipe

UNPACKED = ("gptq", "awq")
"""Formats besides those of bitsandbytes whose weights are unpacked for each product."""
COVERED = ("sft", "dpo", "orpo", "simpo", "grpo")
KNOWN_KERNELS = ("transformers", "liger", "foak", "litgpt")
"""Whose operations are walked as their own code runs them."""

RECIPE_NOT_COVERED = template(
    "training.recipe-not-covered",
    "activations are not covered with {field}: {value}",
    "trace the program: it runs it itself",
)
TAKEN_AS_LLAMA = template(
    "training.taken-as-llama",
    "the blocks of {model_type} were compared with no trace: they are taken to run as their parameters are named",
)
TAKEN_AS_TRANSFORMERS = template(
    "training.taken-as-transformers",
    "the modules of {kernels} are taken to hold what those of transformers hold",
)
TAKEN_AS_TRL = template(
    "training.taken-as-trl",
    "{objective} is taken to run as TRL {release} runs it, with what {framework} does otherwise",
    "name trl and its version as the card's engine",
)
NEWEST_READ = "1.16"
"""Release of TRL whose code was read last: it stands for one that nothing names."""


def check_scope(recipe: Recipe) -> None:
    """Raises `InputError` for a choice whose effect on the activations is not known."""
    for field, value, is_known in (
        ("objective", recipe.objective, recipe.objective in COVERED),
        ("loss", recipe.loss.kind, _is_scored(recipe)),
        ("compile", "true", not recipe.is_compiled),
        ("fp8", "true", not recipe.precision.fp8),
        ("quantised", recipe.precision.quantised, _is_unpacked(recipe.precision.quantised)),
    ):
        if not is_known:
            raise InputError(RECIPE_NOT_COVERED(field=field, value=str(value)))


def _is_scored(recipe: Recipe) -> bool:
    """TRL's losses of preferences: all logits, or tiles of the head; Liger's were others."""
    kind, is_tiled = recipe.loss.kind, release(recipe, "trl") >= TILES_SINCE and recipe.objective in ("dpo", "grpo")
    return recipe.objective == "sft" or kind == "full" or (kind == "fused_linear" and is_tiled)


def _is_unpacked(quantised: str | None) -> bool:
    return quantised is None or quantised in FOUR_BIT or quantised.startswith(UNPACKED)


def taken_for_granted(architecture: Architecture, recipe: Recipe) -> tuple[Message, ...]:
    """What nobody compared."""
    told = []
    if architecture.model_type not in COMPARED:
        told.append(TAKEN_AS_LLAMA(model_type=architecture.model_type))
    of_torchtune = recipe.kernels == "torchtune" and architecture.model_type in OF_TORCHTUNE
    if recipe.kernels not in KNOWN_KERNELS and not of_torchtune:
        told.append(TAKEN_AS_TRANSFORMERS(kernels=recipe.kernels))
    if recipe.objective != "sft" and recipe.framework != "trl":
        known = dict(recipe.libraries).get("trl", NEWEST_READ)
        told.append(TAKEN_AS_TRL(objective=recipe.objective, release=known, framework=recipe.framework))
    return tuple(told)
