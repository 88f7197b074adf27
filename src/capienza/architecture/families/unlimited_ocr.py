"""Unlimited-OCR; its first files keep the text part under `language_config` and the window at the top."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.text_parts import with_text_part
from capienza.architecture.wrapper import describe_text_side


def build(config: Config) -> Architecture:
    """The text side of the file."""
    older = None if config.section("text_config") else config.section("language_config")
    if older is not None:
        part = {**older.mapping, "model_type": "unlimited_ocr_text"}
        if config.has("sliding_window"):
            part["sliding_window"] = config.raw("sliding_window")
        config = with_text_part(config, part)
    return describe_text_side(config, "unlimited_ocr_text", whole_tied=False)
