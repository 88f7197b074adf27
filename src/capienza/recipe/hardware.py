"""What of a recipe a GPU cannot compute.

Legend: a capability is CUDA's, (8, 9) for Ada. Sources: `torch._scaled_mm` (fp8 from 8.9); flash-attention's README
(version 2 from 8.0, version 3 on 9.0). bf16 runs on every GPU, before 8.0 in software: that is slower, not impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from capienza.errors import Message, template
from capienza.recipe.recipe import Recipe

FP8, FLASH_2, FLASH_3 = (8, 9), (8, 0), (9, 0)

NEEDS_CAPABILITY = template(
    "recipe.needs-capability",
    "{field} {found} needs compute capability {needed}, and this GPU has {capability}",
    "choose another GPU, or change {field}",
)


def lacking(recipe: Recipe, capabilities: Iterable[tuple[int, int] | None]) -> tuple[Message, ...]:
    """What every GPU that a name may mean lacks; nothing where one of them is not known."""
    known = list(capabilities)
    if not known or None in known:
        return ()
    found = [list(_lacking(recipe, one)) for one in known if one is not None]
    fields = set.intersection(*({one.parameters["field"] for one in each} for each in found))
    return tuple(one for one in found[0] if one.parameters["field"] in fields)


def _lacking(recipe: Recipe, capability: tuple[int, int]) -> Iterator[Message]:
    if recipe.precision.fp8 and capability < FP8:
        yield _told("fp8", "true", FP8, capability)
    if recipe.attention == "flash_attention_2" and capability < FLASH_2:
        yield _told("attention", recipe.attention, FLASH_2, capability)
    if recipe.attention == "flash_attention_3" and capability != FLASH_3:
        yield _told("attention", recipe.attention, FLASH_3, capability)


def _told(field: str, found: str, needed: tuple[int, int], capability: tuple[int, int]) -> Message:
    return NEEDS_CAPABILITY(field=field, found=found, needed=_version(needed), capability=_version(capability))


def _version(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
