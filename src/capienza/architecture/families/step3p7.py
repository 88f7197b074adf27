"""Step 3.7 with vision; its text part is that of the class, whatever type the file gives it."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.text_parts import with_text_part
from capienza.architecture.wrapper import describe_text_side


def build(config: Config) -> Architecture:
    """The text side of the file."""
    text = config.section("text_config")
    if text is not None:
        config = with_text_part(config, {**text.mapping, "model_type": "step3p5"})
    return describe_text_side(config, "step3p5", whole_tied=False)
