"""BLIP for captions: the vectors that the text side looks at are as wide as the image encoder."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.silent_head import describe_either_head
from capienza.architecture.text_parts import with_text_part


def build(config: Config) -> Architecture:
    """The text side of the file."""
    vision = config.section("vision_config") or Config({}, config.file, prefix="vision_config.", parent=config)
    text = config.section("text_config")
    if text is not None:
        config = with_text_part(config, {**text.mapping, "encoder_hidden_size": vision.integer("hidden_size", 768)})
    return describe_either_head(config, "blip_text_model")
