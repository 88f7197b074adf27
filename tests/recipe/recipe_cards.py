"""Cards of a fine-tuning in one line, and their recipes."""

from __future__ import annotations

from typing import Any

from capienza.card.load import parse_card
from capienza.card.model import Card
from capienza.recipe.origins import leaves
from capienza.recipe.read import recipe_of
from capienza.recipe.recipe import Recipe

HEAD = "capienza: 1\nname: x\nmodel: {id: a/b}\ntask: fine-tuning\ntokens: {required: 2048}\nmicrobatch: 2\n"
"""Six lines."""


def card_of(training: str, *more: str) -> Card:
    """A card with a recipe on its seventh line, and further lines."""
    return parse_card("".join([HEAD, f"training: {training}\n", *(f"{line}\n" for line in more)]), "card.yaml")


def made(training: str, *more: str, stored: str | None = "bf16", model_type: str | None = "llama") -> Recipe:
    """The recipe of such a card, for a model stored in bf16."""
    return recipe_of(card_of(training, *more), stored, model_type)


def flat(recipe: Recipe) -> dict[str, Any]:
    """Every field by its path."""
    return dict(leaves(recipe))
