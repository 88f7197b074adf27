"""The training recipe of a card, completed from the habits of its framework."""

from __future__ import annotations

from capienza.card.model import Card
from capienza.errors import CapienzaError, Message, UsageError, template
from capienza.recipe.read import check_recipe, recipe_of
from capienza.recipe.recipe import Recipe

NOT_OPENED = template(
    "recipe.model-not-opened",
    "{model} is on the Hub and was not opened: the recipe takes weights.format for the format of its weights",
    "Write weights.format; capienza size CARD reads what the files hold.",
)


def card_recipe(card: Card) -> tuple[Recipe | None, tuple[Message, ...]]:
    """The recipe of a card for fine-tuning, and what is to be said of it. None where the card leaves too much open.

    The files of a local model are opened, a model on the Hub is not. Raises `InputErrors` for what contradicts itself.
    """
    if card.task != "fine-tuning":
        return None, ()
    check_recipe(card)
    if card.model.path is None:
        told = (NOT_OPENED(model=card.model.id),) if card.model.id is not None and card.weights.format is None else ()
        return _made(card, card.weights.format, None, None, told)
    from capienza.api.models import model_of
    from capienza.predict.model import stored_format

    try:
        model = model_of(card)
    except CapienzaError as error:
        return _made(card, card.weights.format, None, None, (error.message,))
    config = model.artifact.config if model.artifact else None
    model_type = str(config["model_type"]) if config and "model_type" in config else None
    return _made(card, stored_format(model), model_type, model.dtype, ())


def _made(
    card: Card, stored: str | None, model_type: str | None, rest: str | None, told: tuple[Message, ...]
) -> tuple[Recipe | None, tuple[Message, ...]]:
    try:
        return recipe_of(card, stored, model_type, rest_dtype=rest), told
    except UsageError as error:
        return None, (*told, error.message)
