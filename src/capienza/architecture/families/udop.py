"""UDOP: T5 with an encoder that reads a page, its words and where they stand."""

from __future__ import annotations

from typing import NoReturn

from capienza.architecture.not_described import refuse_type
from capienza.architecture.reading import Config
from capienza.errors import phrase

REASON = phrase("its decoder runs only on what its encoder makes of a page, and that is not described")
DIRECTION = phrase("the weights and the cache would come out too small")


def build(config: Config) -> NoReturn:
    """Refused: the encoder reads places on a page beside its words, and is not described."""
    refuse_type(config, REASON, DIRECTION)
