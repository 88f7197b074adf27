"""A recipe against the model it trains and against the GPU it runs on: what cannot be there.

Legend: a module is a linear module by its full name, as (out, in); a capability is CUDA's, (8, 9) for Ada.
Sources: PEFT `check_target_module_exists` (a target is the end of a module's name); NVIDIA's CUDA programming guide
(bf16 from 8.0, fp8 from 8.9); flash-attention's README (2: from 8.0; 3: 9.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from capienza.card.model import Card
from capienza.card.problems import closest
from capienza.errors import InputError, InputErrors, Message, template, with_suggestion
from capienza.recipe.choices import place_in
from capienza.recipe.recipe import Recipe

ALL_LINEAR = "all-linear"
MOST_LISTED = 40
BF16, FP8, FLASH_2, FLASH_3 = (8, 0), (8, 9), (8, 0), (9, 0)

UNKNOWN_TARGET = template(
    "recipe.unknown-target",
    "no module of the model ends in {found}; its modules end in {accepted}",
    "Write one of these names, or all-linear.",
)
RANK_TOO_LARGE = template(
    "recipe.rank-too-large",
    "rank {rank} is above the smaller side of {module}, {out} x {into}: adapters would hold more than the matrix",
    "Lower the rank, or leave that module out of targets.",
)
NEEDS_CAPABILITY = template(
    "recipe.needs-capability",
    "{field} {found} needs a GPU of compute capability {needed}, and this one has {capability}",
    "Choose a newer GPU, or change {field}.",
)


def check_adapters(card: Card, recipe: Recipe, modules: Mapping[str, tuple[int, int]], others: Iterable[str]) -> None:
    """Raises `InputErrors` for targets that no module of the model has, and for ranks above a dimension.

    `modules` are the linear modules by name, `others` the names of all other modules with weights.
    """
    adapters = recipe.adapters
    if adapters is None:
        return
    problems = [*_targets(recipe, modules), *_saved(recipe, [*modules, *others]), *_ranks(recipe, modules)]
    stated = {one.field: one.source.parameters.get("field") for one in recipe.origins if one.is_stated}
    if problems:
        raise InputErrors(
            InputError(message, place_in(card, str(stated.get(field) or "training"))) for field, message in problems
        )


def is_target(module: str, targets: Iterable[str]) -> bool:
    """Does a module get adapters? The output head is none of all linear modules."""
    return any(module == target or module.endswith(f".{target}") for target in targets)


def unsupported(recipe: Recipe, capability: tuple[int, int]) -> Iterator[Message]:
    """What of a recipe a GPU of that CUDA capability cannot compute."""
    precision = recipe.precision
    if "bf16" in (precision.base, precision.trained, precision.autocast) and capability < BF16:
        yield _lacks("mixed_precision" if precision.autocast == "bf16" else "weights.format", "bf16", BF16, capability)
    if precision.fp8 and capability < FP8:
        yield _lacks("fp8", "true", FP8, capability)
    if recipe.attention == "flash_attention_2" and capability < FLASH_2:
        yield _lacks("attention", recipe.attention, FLASH_2, capability)
    if recipe.attention == "flash_attention_3" and capability != FLASH_3:
        yield _lacks("attention", recipe.attention, FLASH_3, capability)


def _lacks(field: str, found: str, needed: tuple[int, int], capability: tuple[int, int]) -> Message:
    return NEEDS_CAPABILITY(field=field, found=found, needed=_version(needed), capability=_version(capability))


def _version(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def _targets(recipe: Recipe, modules: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, Message]]:
    assert recipe.adapters is not None
    for target in recipe.adapters.targets:
        if target != ALL_LINEAR and not any(is_target(module, (target,)) for module in modules):
            yield "adapters.targets", _unknown(target, modules)


def _saved(recipe: Recipe, names: list[str]) -> Iterator[tuple[str, Message]]:
    assert recipe.adapters is not None
    for target in recipe.adapters.modules_to_save:
        if not any(is_target(module, (target,)) for module in names):
            yield "adapters.modules_to_save", _unknown(target, names)


def _unknown(target: str, names: Iterable[str]) -> Message:
    ends = sorted({name.rpartition(".")[2] for name in names})
    shown = (*ends[:MOST_LISTED], *(("...",) if len(ends) > MOST_LISTED else ()))
    return with_suggestion(UNKNOWN_TARGET(found=target[:60], accepted=shown), closest(target, ends))


def _ranks(recipe: Recipe, modules: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, Message]]:
    """The first module whose smaller side is below the rank: one is enough to be told."""
    adapters = recipe.adapters
    assert adapters is not None
    for module, (out, into) in modules.items():
        is_hit = is_target(module, adapters.targets) or ALL_LINEAR in adapters.targets
        if is_hit and adapters.rank > min(out, into):
            yield "adapters.rank", RANK_TOO_LARGE(rank=adapters.rank, module=module, out=out, into=into)
            return
