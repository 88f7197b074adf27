"""A training recipe, field by field, each with where its value comes from."""

from __future__ import annotations

from typing import Any

from capienza.i18n.translator import Say
from capienza.recipe.recipe import Recipe
from capienza.report.blocks import Document, Heading, Items, Paragraph, Table
from capienza.report.messages import message_data, sentence


def recipe_document(recipe: Recipe, say: Say) -> Document:
    """The table of fields, and what of the card is in none of them."""
    rows = tuple((one.field, one.value or "-", say.message(one.source)) for one in recipe.origins)
    table = Table(columns=(say("field"), say("value"), say("where it comes from")), rows=rows)
    left_out = tuple(sentence(message, say) for message in recipe.left_out)
    return (
        Heading(say("Training recipe"), 2),
        Paragraph(say("What the card does not state is the framework's default.")),
        table,
        *([Items(left_out)] if left_out else []),
    )


def recipe_data(recipe: Recipe) -> dict[str, Any]:
    """The recipe as JSON: fields by path, with their origins."""
    return {
        "framework": recipe.framework,
        "framework_version": recipe.framework_version,
        "fields": [
            {"field": one.field, "value": one.value, "is_stated": one.is_stated, "source": message_data(one.source)}
            for one in recipe.origins
        ],
        "left_out": [message_data(message) for message in recipe.left_out],
    }
