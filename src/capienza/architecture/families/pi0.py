"""PI0: it makes movements of a robot, not text."""

from __future__ import annotations

from typing import NoReturn

from capienza.architecture.not_described import refuse_type
from capienza.architecture.reading import Config
from capienza.errors import phrase

REASON = phrase("it makes the movements of a robot, not text, with a second model beside the one that reads")
DIRECTION = phrase("the weights and the memory of a step would come out too small")


def build(config: Config) -> NoReturn:
    """Refused: no text is written, so no length of text sizes it."""
    refuse_type(config, REASON, DIRECTION)
