"""T5Gemma 2: one attention of the decoder looks at its own tokens and at those of the encoder."""

from __future__ import annotations

from typing import NoReturn

from capienza.architecture.not_described import refuse_type
from capienza.architecture.reading import Config
from capienza.errors import phrase

REASON = phrase("its decoder keeps the tokens of the encoder beside its own, and the encoder reads text and images")
DIRECTION = phrase("the weights and the cache would come out too small")


def build(config: Config) -> NoReturn:
    """Refused: a text alone cannot fill the cache of the decoder."""
    refuse_type(config, REASON, DIRECTION)
