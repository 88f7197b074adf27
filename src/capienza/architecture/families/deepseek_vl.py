"""DeepSeek-VL with one image encoder."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.silent_head import describe_silent_head


def build(config: Config) -> Architecture:
    """The text side of the file."""
    return describe_silent_head(config, "llama")
