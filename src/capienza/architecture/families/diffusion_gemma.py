"""DiffusionGemma: it writes a block of tokens at once, in many passes of an encoder and a decoder."""

from __future__ import annotations

from typing import NoReturn

from capienza.architecture.not_described import refuse_type
from capienza.architecture.reading import Config
from capienza.errors import phrase

REASON = phrase("it writes a block of tokens at once, in many passes of an encoder and a decoder")
DIRECTION = phrase("the cache and the memory of a step would come out too small")


def build(config: Config) -> NoReturn:
    """Refused: a cache of one token after another is not what it needs."""
    refuse_type(config, REASON, DIRECTION)
