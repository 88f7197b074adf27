"""Which release of a package a recipe runs: several things are another in older ones."""

from __future__ import annotations

import re

from capienza.recipe.recipe import Recipe

NEWEST = (9999,)
_BARE = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)")


def release(recipe: Recipe, package: str) -> tuple[int, ...]:
    """The release of a package: stated by itself, or in the framework's version ("transformers 4.48.1, peft 0.13.2").

    One that is not named is taken for the newest.
    """
    stated = dict(recipe.libraries).get(package)
    if stated is not None:
        found = _BARE.match(stated)
    else:
        said = recipe.framework_version or ""
        found = re.search(rf"\b{re.escape(package)}[ =]*([0-9]+(?:\.[0-9]+)*)", said)
    return tuple(int(part) for part in found[1].split(".")) if found else NEWEST


def litgpt_release(recipe: Recipe) -> tuple[int, ...]:
    """The release of LitGPT; as Lit-GPT, before March 2024, it had none and counts as 0."""
    stated, said = dict(recipe.libraries).get("litgpt"), recipe.framework_version or ""
    if stated is None and "lit-gpt" in said.lower():
        return (0,)
    found = _BARE.match(stated or said) or re.search(r"\blitgpt[ =]*([0-9]+(?:\.[0-9]+)+)", said)
    return tuple(int(part) for part in found[1].split(".")) if found else NEWEST
