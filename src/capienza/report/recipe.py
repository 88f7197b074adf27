"""A training recipe, field by field, each with where its value comes from."""

from __future__ import annotations

from typing import Any

from capienza.i18n.translator import Say
from capienza.recipe.recipe import Origin, Recipe
from capienza.report.blocks import Block, Items, Table
from capienza.report.messages import message_data, sentence


def recipe_blocks(recipe: Recipe, say: Say) -> tuple[Block, ...]:
    """The table of choices, and what of the card is in none of them."""
    left_out = tuple(sentence(message, say) for message in recipe.left_out)
    return (recipe_table(recipe, say), *([Items(left_out)] if left_out else []))


def recipe_table(recipe: Recipe, say: Say) -> Table:
    """Every choice that this training has, stated or the framework's default."""
    rows = ((one.field, one.value or "-", say.message(one.source)) for one in recipe.origins if _matters(one, recipe))
    return Table(
        columns=(say("choice"), say("value"), say("from")),
        rows=tuple(rows),
        title=say("Recipe: what the figures rest on"),
    )


def recipe_data(recipe: Recipe) -> list[dict[str, Any]]:
    """Every choice as data, and what is left out as fields without a value."""
    chosen = [
        {"field": one.field, "value": one.value, "is_stated": one.is_stated, "source": message_data(one.source)}
        for one in recipe.origins
    ]
    left = [
        {"field": str(one.parameters.get("field")), "value": None, "is_stated": True, "source": message_data(one)}
        for one in recipe.left_out
    ]
    return chosen + left


def _matters(one: Origin, recipe: Recipe) -> bool:
    """Is the choice about something that this training has?"""
    part = one.field.partition(".")[0]
    return not (part == "parallel" and recipe.parallel.sharding == "none" and not one.is_stated)
