"""Versions of libraries as ranges of habits need them, and those that a card states.

Legend: a version is its leading whole numbers, compared number by number: 4.48.1 is before 4.49, 0.19.2.dev0 counts as
0.19.2. A range is `from` (it holds from there on) and `below` (it no longer holds there).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import msgspec

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
RELEASES = Path(__file__).parent / "habits" / "data" / "releases" / "months.json"
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


class Versions(msgspec.Struct, frozen=True):
    """Versions by library: those that the card states, and the guess of the others by the month of `by`."""

    stated: dict[str, str]
    guessed: dict[str, str] = {}
    by: str = ""

    def of(self, library: str) -> str | None:
        """The version of a library that is reckoned with; None where nothing says which."""
        return self.stated.get(library, self.guessed.get(library))


def versions_of(card: Card, framework: str) -> Versions:
    """Versions of a card: that of the engine, those of libraries under engine.options, and what was new at the time.

    A framework's release stands for the time: the other libraries are taken as they were in its month. Raises
    `InputError` for what is no version.
    """
    engine = card.engine
    if engine is None:
        return Versions({})
    found: dict[str, tuple[str, str]] = {}
    if engine.version is not None:
        found[framework] = (engine.version, "engine.version")
    for name, value in engine.options.items():
        if plain_name(name) in LIBRARIES:
            found[plain_name(name)] = (str(value), f"engine.options.{name}")
    for text, field in found.values():
        if numbers(text) is None:
            raise InputError(NOT_A_VERSION(found=text[:60]), place_in(card, field))
    stated = {library: text for library, (text, _) in found.items()}
    month = _month(framework, stated.get(framework))
    if month is None:
        return Versions(stated)
    return Versions(stated, _newest(month), f"{framework} {stated[framework]}")


def _month(framework: str, version: str | None) -> str | None:
    """The month of a framework's release, or of the last one known before it; None outside of what is known."""
    known = _releases().get(framework, [])
    if version is None or not known or not is_within(version, known[0][0], None):
        return None
    return next(month for number, month in reversed(known) if is_within(version, number, None))


def _newest(month: str) -> dict[str, str]:
    """The newest release of every library up to a month, of those that are known."""
    found = {}
    for library, releases in _releases().items():
        before = [number for number, when in releases if when <= month]
        if before:
            found[library] = before[-1]
    return found


@functools.cache
def _releases() -> dict[str, list[tuple[str, str]]]:
    """Releases by library with their months, the oldest first: dates of the files in the packages themselves."""
    return msgspec.json.decode(RELEASES.read_bytes(), type=dict[str, list[tuple[str, str]]])
