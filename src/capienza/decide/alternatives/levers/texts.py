"""Why a kind of change is not offered."""

from __future__ import annotations

from capienza.errors import template

OTHER_TASK = template("alternatives.other-task", "it belongs to {task}")
NO_ENGINE = template(
    "alternatives.no-engine",
    "the card names no engine, whose options these are",
    "write engine.name and engine.version",
)
OTHER_ENGINE = template(
    "alternatives.other-engine",
    "for {engine} no such option is known here",
    "change it by hand, and size the card again",
)
ALREADY = template("alternatives.already", "the card already has {found}")
