"""Text parts that files keep under another name, or that the whole file adds something to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capienza.architecture.reading import Config

TEXT = "text_config"


def with_text_part(config: Config, part: Mapping[str, Any]) -> Config:
    """The same file with another text part."""
    return Config({**config.mapping, TEXT: part}, config.file, prefix=config.prefix, parent=config)


def with_older_part(config: Config, older: str) -> Config:
    """The same file, whose text part may stand under an older name."""
    if config.section(TEXT) is not None:
        return config
    part = config.section(older)
    return config if part is None else with_text_part(config, part.mapping)
