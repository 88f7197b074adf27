"""A text model inside a wrapper that is described whole: its tensors get the wrapper's names, and others are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from capienza.architecture import registry
from capienza.architecture.model import Architecture, Parameter
from capienza.architecture.pieces import Piece
from capienza.architecture.reading import MISSING, Config
from capienza.errors import phrase

PART = "model."
"""Where the text model's own tensors are; its head lies outside."""


def describe_text_part(
    config: Config, text_type: str, *, tied: bool, default: Mapping[str, Any] | None = None
) -> Architecture:
    """The model of `text_config`, which must be of `text_type`; `tied` is what the whole says of the head.

    `default` is the text part that the wrapper's class builds where the file states none; without it one is needed.
    """
    if config.nested:
        direction = phrase("the weights would come out too small")
        config.not_understood("model_type", config.text("model_type"), text_type, direction)
    text = config.section("text_config")
    if text is None and default is None:
        config.refuse("text_config", MISSING(key="text_config"))
    if text is None:
        text = Config(default or {}, config.file, prefix="text_config.", parent=config)
    stated = text.text("model_type", text_type)
    if stated != text_type:
        direction = phrase("another text model has other tensors and another cache")
        text.not_understood("model_type", stated, text_type, direction)
    mapping = {**text.mapping, "model_type": text_type, "tie_word_embeddings": tied}
    return registry.build(Config(mapping, text.file, prefix=text.prefix, parent=text))


def wrap(config: Config, text: Architecture, more: Sequence[Piece]) -> Architecture:
    """The text model under the wrapper's names, with the wrapper's own tensors before it."""
    inner = f"{PART}language_model."
    renamed = (
        msgspec.structs.replace(parameter, name=inner + parameter.name.removeprefix(PART))
        if parameter.name.startswith(PART)
        else parameter
        for parameter in text.parameters
    )
    return msgspec.structs.replace(
        text,
        model_type=config.text("model_type"),
        parameters=(*(Parameter(*piece) for piece in more), *renamed),
    )
