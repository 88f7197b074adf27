"""Which release of a package a recipe runs: several things are another in older ones."""

from __future__ import annotations

import re

from capienza.recipe.recipe import Recipe

NEWEST = (9999,)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = re.compile(r"(20[0-9]{2})-([0-9]{2})")
_MONTH = re.compile(rf"\b({'|'.join(MONTHS)})[a-z]* (20[0-9]{{2}})")
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
    """The release of LitGPT. Lit-GPT, as it was called before it had any, counts as 0, 0 and its year and month."""
    stated, said = dict(recipe.libraries).get("litgpt"), (recipe.framework_version or "").lower()
    if stated is None and "lit-gpt" in said:
        found = _DAY.search(said) or _MONTH.search(said)
        if found is None:
            return (0, 0)
        year, month = (found[1], found[2]) if found[1].isdigit() else (found[2], MONTHS.index(found[1]) + 1)
        return (0, 0, 100 * int(year) + int(month))
    found = _BARE.match(stated or said) or re.search(r"\blitgpt[ =]*([0-9]+(?:\.[0-9]+)+)", said)
    return tuple(int(part) for part in found[1].split(".")) if found else NEWEST


def torchtune_release(recipe: Recipe) -> tuple[int, ...]:
    """The release of torchtune, which a recipe of it states by itself."""
    stated = dict(recipe.libraries).get("torchtune")
    found = _BARE.match(stated or recipe.framework_version or "") if recipe.framework == "torchtune" else None
    return tuple(int(part) for part in found[1].split(".")) if found else NEWEST


def bitsandbytes_release(recipe: Recipe) -> tuple[int, ...]:
    """That of bitsandbytes: LitGPT asked for 0.42 up to 0.5 (its package's `all` extra), Lit-GPT for 0.41 or older."""
    stated = release(recipe, "bitsandbytes")
    if stated != NEWEST or recipe.framework != "litgpt" or litgpt_release(recipe) > (0, 5):
        return stated
    return (0, 42)
