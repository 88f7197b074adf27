"""What a training writes to disk each time it saves: trained weights and the optimizer's states.

Legend: P trained parameters, s bytes of one in the format it is trained in. Weights take s P; a format that the card
leaves to habit may be another one, 2 P to 4 P. States are those of `states`, each tensor as it is, in fp32 at most
8 P for two moments. Neither depends on lengths or batches, so a card that states none is read all the same.
"""

from __future__ import annotations

import msgspec

from capienza.card.model import Card, TokenCount, Training
from capienza.card.options import plain_name
from capienza.errors import InputError, Message, UsageError, template
from capienza.predict.model import Model, stored_format
from capienza.predict.training.provable import is_format_stated, trained_dtype
from capienza.predict.training.states import saved_bytes
from capienza.predict.training.trained import BYTES, num_trained, trained_tensors
from capienza.recipe.read import recipe_of
from capienza.recipe.recipe import Origin, Recipe
from capienza.units import Range

ADAPTER_METHODS = ("lora", "qlora", "dora")
LEAST, MOST = 2, 4
MOST_STATES = 2 * MOST

ADAPTERS = template(
    "predict.formula-adapters",
    "rank {rank} x (in + out) of {count} matrices ({targets}) = {parameters} parameters",
)
WHOLE = template("predict.formula-trained-whole", "{parameters} parameters, all of them trained")


class Saved(msgspec.Struct, frozen=True):
    """What is trained, and its bytes in one checkpoint."""

    parameters: int
    weights: Range
    states: Range
    formula: Message


def is_adapted(card: Card) -> bool:
    """Does the card train adapters beside a frozen model?"""
    method = (card.training.method or "").casefold() if isinstance(card.training, Training) else ""
    return method in ADAPTER_METHODS


def saved(card: Card, model: Model) -> Saved | None:
    """What one checkpoint of the card's training holds; None where the card or the model leaves that open."""
    architecture = model.architecture
    if architecture is None or not architecture.parameters or card.training is None:
        return None
    recipe = _recipe(card, model)
    if recipe is None:
        return None
    tensors = trained_tensors(architecture, recipe)
    count = num_trained(tensors)
    if not count:
        return None
    size, is_fixed = BYTES[trained_dtype(recipe)], is_format_stated(recipe)
    least = (size if is_fixed else LEAST) * count
    states = saved_bytes(tensors, recipe)
    states_least = states if is_fixed else states * LEAST // size
    if "adapters.targets" not in {origin.field for origin in recipe.origins if origin.is_stated} and recipe.adapters:
        least = states_least = 0
    return Saved(
        parameters=count,
        weights=Range(least, size * count, (size if is_fixed else MOST) * count),
        states=Range(states_least, states, states if is_fixed else max(states, MOST_STATES * count)),
        formula=_formula(recipe, count, len([one for one in tensors if one.name.endswith("lora_A")])),
    )


def needed_fields(card: Card) -> tuple[str, ...]:
    """The fields of the card that a checkpoint of this training depends on."""
    if is_adapted(card):
        return ("training.method", "training.rank", "training.targets")
    return ("training.method", "weights.format")


def option(card: Card, name: str) -> object:
    """A training option by its plain name; None when the card does not state it."""
    options = card.training.options if card.training else {}
    return next((value for key, value in options.items() if plain_name(key) == name), None)


def usual_export(card: Card, model: Model) -> Origin | None:
    """What the recipe takes for an export that the card does not state; None where the card leaves the recipe open."""
    recipe = _recipe(card, model)
    return None if recipe is None else next((one for one in recipe.origins if one.field == "export"), None)


def _recipe(card: Card, model: Model) -> Recipe | None:
    """The card's recipe, with any length and microbatch where it states none."""
    tokens = card.tokens
    if tokens.required is None:
        tokens = msgspec.structs.replace(tokens, required=TokenCount(total=1))
    whole = msgspec.structs.replace(card, tokens=tokens, microbatch=card.microbatch or 1)
    architecture = model.architecture
    try:
        return recipe_of(
            whole, stored_format(model), architecture.model_type if architecture else None, rest_dtype=model.dtype
        )
    except (InputError, UsageError):  # the training's own entries say what is wrong with it
        return None


def _formula(recipe: Recipe, parameters: int, count: int) -> Message:
    adapters = recipe.adapters
    if adapters is None:
        return WHOLE(parameters=parameters)
    return ADAPTERS(rank=adapters.rank, count=count, targets=adapters.targets, parameters=parameters)
