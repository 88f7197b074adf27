"""Ovis 2: a head of its own has the sizes that the whole file states beside its text part."""

from __future__ import annotations

import msgspec

from capienza.architecture.model import Architecture
from capienza.architecture.reading import Config
from capienza.architecture.silent_head import note_silent_head
from capienza.architecture.wrapper import describe_text_side


def build(config: Config) -> Architecture:
    """The text side of the file."""
    architecture = describe_text_side(config, "qwen2")
    if architecture.tied_head:
        return architecture
    hidden = config.integer("hidden_size", 1536)
    if hidden != architecture.hidden_size:
        config.broken_rule("hidden_size", hidden, f"hidden_size == {architecture.hidden_size}")
    rows = config.integer("vocab_size", 151_643)
    parameters = [
        msgspec.structs.replace(parameter, shape=(rows, hidden)) if parameter.role == "head" else parameter
        for parameter in architecture.parameters
    ]
    return note_silent_head(config, msgspec.structs.replace(architecture, parameters=tuple(parameters)))
