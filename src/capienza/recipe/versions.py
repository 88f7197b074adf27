"""Versions of libraries as ranges of habits need them, and those that a card states.

Legend: a version is its leading whole numbers, compared number by number: 4.48.1 is before 4.49, 0.19.2.dev0 counts as
0.19.2. A range is `from` (it holds from there on) and `below` (it no longer holds there).
"""

from __future__ import annotations

import re

from capienza.card.model import Card
from capienza.card.options import plain_name
from capienza.errors import InputError, template
from capienza.recipe.choices import place_in

NOT_A_VERSION = template(
    "recipe.not-a-version",
    "expected a version such as 0.24.0, got {found}",
    "Write the number that pip show prints, in quotes.",
)
LIBRARIES = frozenset(
    {
        "accelerate", "axolotl", "bitsandbytes", "deepspeed", "liger_kernel", "litgpt", "llama_factory", "ms_swift",
        "peft", "torch", "torchao", "torchtitan", "torchtune", "transformers", "trl", "unsloth",
    }
)  # fmt: skip
_VERSION = re.compile(r"v?([0-9]{1,6}(?:\.[0-9]{1,6}){0,3})", re.ASCII)


def numbers(version: str) -> tuple[int, ...] | None:
    """The leading numbers of a version, without zeros at the end; None for what is no version."""
    match = _VERSION.match(version.strip()[:60])
    if match is None:
        return None
    found = [int(part) for part in match[1].split(".")]
    while len(found) > 1 and not found[-1]:
        found.pop()
    return tuple(found)


def is_within(version: str, first: str | None, below: str | None) -> bool:
    """Is a version in the range?"""
    at = numbers(version) or ()
    return (first is None or at >= (numbers(first) or ())) and (below is None or at < (numbers(below) or ()))


def versions_of(card: Card, framework: str | None) -> dict[str, str]:
    """Versions by library: that of the engine, and those of libraries under engine.options.

    Raises `InputError` for what is no version.
    """
    engine = card.engine
    if engine is None:
        return {}
    found: dict[str, tuple[str, str]] = {}
    if engine.version is not None and framework is not None:
        found[framework] = (engine.version, "engine.version")
    for name, value in engine.options.items():
        if plain_name(name) in LIBRARIES:
            found[plain_name(name)] = (str(value), f"engine.options.{name}")
    for text, field in found.values():
        if numbers(text) is None:
            raise InputError(NOT_A_VERSION(found=text[:60]), place_in(card, field))
    return {library: text for library, (text, _) in found.items()}
