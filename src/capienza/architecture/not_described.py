"""Models that are known and not described: each is refused by its name, with the reason."""

from __future__ import annotations

from typing import NoReturn

from capienza.architecture.reading import Config
from capienza.errors import template

NOT_DESCRIBED = template(
    "architecture.not-described",
    "model type {found} is not described: {reason}. Nothing is guessed: {direction}",
    "The weights can still be counted from the headers of the model's own files; the cache cannot.",
)


def refuse_type(config: Config, reason: str, direction: str) -> NoReturn:
    """Refuse the whole file by its model type."""
    config.refuse("model_type", NOT_DESCRIBED(found=config.text("model_type"), reason=reason, direction=direction))
