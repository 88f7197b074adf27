"""What a program's options say of what a card says in fields of its own: length, batch, and format of the base.

`per_device_train_batch_size: 8` under training beside `microbatch: 2` would leave one of the two out of the figures.
"""

from __future__ import annotations

from collections.abc import Iterator

from capienza.card.model import Card, Scalar
from capienza.card.options import as_flag, plain_name
from capienza.card.training_spellings import CARD_FIELDS
from capienza.errors import Message, template
from capienza.recipe.recipe import Recipe

LOADERS: dict[str, tuple[str, str]] = {
    "load_in_4bit": ("4 bits", "nf4"),
    "load_in_8bit": ("8 bits", "int8"),
}
"""Options that hold the base in fewer bits, with a format that a card writes for it."""
FORMATS: dict[str, tuple[str, ...]] = {"load_in_4bit": ("nf4", "fp4"), "load_in_8bit": ("int8",)}

OTHER_FIELD = template(
    "recipe.other-field", "{field} says {found}, and {other} says {other_found}", "Write {other} alone."
)
OTHER_FORMAT = template(
    "recipe.loads-in-bits",
    "{field} holds the base in {bits}, and the weights are in {format}",
    "Write weights.format: {accepted}, or delete the key.",
)


def format_told(card: Card) -> str:
    """A format of the stored weights that what the card says of them agrees with."""
    options = card.training.options if card.training else {}
    loaders = [
        LOADERS[plain_name(key)] for key, value in options.items() if plain_name(key) in LOADERS and as_flag(value)
    ]
    return loaders[0][1] if loaders else "bf16"


def said_elsewhere(card: Card, recipe: Recipe) -> Iterator[tuple[str, Message]]:
    """The keys of a card that say something else than its own fields, with what is to be said."""
    own: dict[str, int] = {
        "microbatch": recipe.microbatch, "accumulation": recipe.accumulation, "tokens.required": recipe.tokens,
    }  # fmt: skip
    for key, value in (card.training.options if card.training else {}).items():
        name, field = plain_name(key), f"training.{key}"
        if name in CARD_FIELDS and value != own[CARD_FIELDS[name]]:
            other = CARD_FIELDS[name]
            yield field, OTHER_FIELD(field=field, found=_shown(value), other=other, other_found=own[other])
        elif name in LOADERS and as_flag(value) and not str(recipe.precision.quantised).startswith(FORMATS[name]):
            bits, accepted = LOADERS[name]
            held = recipe.precision.quantised or recipe.precision.base
            yield field, OTHER_FORMAT(field=field, bits=bits, format=held, accepted=accepted)


def _shown(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:60]
