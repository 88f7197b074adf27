"""Hunyuan OCR and VL; older files keep the text keys at the top."""

from __future__ import annotations

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.silent_head import describe_either_head


def build(config: Config) -> Architecture:
    """The text side of the file."""
    return describe_either_head(config, "hunyuan_vl_text", flat=True)
