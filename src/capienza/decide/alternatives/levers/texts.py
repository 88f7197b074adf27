"""Why a kind of change is not offered."""

from __future__ import annotations

from capienza.errors import template

NOT_TRAINED = template("alternatives.only-fine-tuning", "it belongs to fine-tuning, and the card serves")
NOT_SERVED = template("alternatives.only-inference", "it belongs to inference, and the card trains")
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
