"""Files of a whole omni model: the part that reads and writes text is its thinker, the others make speech of that."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import MISSING, Config
from capienza.architecture.wrapper import NESTED, describe_text_side
from capienza.errors import phrase


def describe_thinker(config: Config, text_type: str) -> Architecture:
    """The text side of `thinker_config`; the class never ties the head of a file that says nothing."""
    model_type = config.text("model_type")
    if config.nested:
        config.not_understood("model_type", model_type, NESTED, phrase("the weights would come out too small"))
    part = config.section("thinker_config")
    if part is None:
        config.refuse("thinker_config", MISSING(key="thinker_config"))
    thinker = Config({**part.mapping, "model_type": model_type}, config.file, prefix=part.prefix, parent=config)
    thinker.nested = False  # it holds a text part of its own, as a whole file does
    return describe_text_side(thinker, text_type, whole_tied=False)
