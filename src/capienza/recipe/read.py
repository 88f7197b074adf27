"""The recipe of a card: what it states, and the habits of its framework for everything else."""

from __future__ import annotations

import msgspec

from capienza.card.model import Card
from capienza.errors import Message, UsageError, template
from capienza.recipe import build
from capienza.recipe.choices import STATED, Choice, Choices, stated_in
from capienza.recipe.contradictions import check
from capienza.recipe.elsewhere import format_told
from capienza.recipe.habits.lookup import framework_named
from capienza.recipe.origins import origins, unused
from capienza.recipe.ranks import ranks_field
from capienza.recipe.recipe import Recipe
from capienza.recipe.settle import settled
from capienza.recipe.versions import Versions, versions_of

USUAL = "transformers"
NO_ENGINE = template(
    "recipe.no-engine", "the card names no framework (engine.name): the Trainer of transformers is taken"
)
NO_HABITS = template(
    "recipe.no-habits", "no habits of {found} are known: those of the Trainer of transformers are taken"
)
ONE_UPDATE = template("recipe.one-microbatch", "no accumulation is stated: every microbatch is an update")
NOT_DIVIDED = template("recipe.not-divided", "the card divides nothing here")
NOT_STATED = template("recipe.not-stated", "the card states none")


def recipe_of(
    card: Card,
    stored_format: str | None = None,
    model_type: str | None = None,
    *,
    rest_dtype: str | None = None,
) -> Recipe:
    """The complete recipe of a card for fine-tuning.

    `stored_format` is the weight format that the model's files hold, in the words of a card; `rest_dtype` the format
    of what of them is not quantised; `model_type` is that of config.json, for the targets that PEFT takes by itself.

    Raises `UsageError` naming the fields without which there is nothing to compute, `InputError` (with the card's
    line) for names that are not known, and `InputErrors` for everything in the card that contradicts itself.
    """
    stated = stated_in(card)
    framework, told = _framework(card)
    versions = versions_of(card, framework)
    choices = settled(
        card, stated.choices, framework, versions,
        stored_format=stored_format, rest_dtype=rest_dtype, model_type=model_type,
    )  # fmt: skip
    is_shared = choices["sharding"].value != "none"
    choices |= _of_the_card(card, told, versions.stated.get(framework), is_shared=is_shared)
    recipe = _made(card, framework, versions, choices)
    check(card, recipe, choices)
    rests_on = origins(recipe, choices)
    left_out = stated.left_out + unused(stated.choices, rests_on)
    return msgspec.structs.replace(recipe, left_out=left_out, origins=rests_on)


def check_recipe(card: Card) -> None:
    """Contradictions of a card's recipe, without its model. Raises as `recipe_of`, but for fields that are open.

    What the model would say is filled in with what contradicts nothing: a format of the weights, a type that has
    targets.
    """
    try:
        recipe_of(card, format_told(card), "llama")
    except UsageError:
        return


def _made(card: Card, framework: str, versions: Versions, choices: Choices) -> Recipe:
    required, microbatch = card.tokens.required, card.microbatch
    assert required is not None
    assert microbatch is not None
    norm = build.value(choices, "max_grad_norm")
    is_free = bool(build.value(choices, "padding_free"))
    return Recipe(
        framework=framework,
        framework_version=versions.stated.get(framework),
        libraries=tuple((versions.guessed | versions.stated).items()),
        objective=build.value(choices, "objective"),
        method=build.value(choices, "method"),
        tokens=required.total,
        microbatch=microbatch,
        accumulation=card.accumulation or 1,
        is_packed=bool(build.value(choices, "packing")),
        has_padding_mask=not is_free and bool(build.value(choices, "padding_mask")),
        attention=build.value(choices, "attention"),
        kernels=build.value(choices, "kernels"),
        is_compiled=bool(build.value(choices, "compile")),
        precision=build.precision(choices),
        optimizer=build.optimizer(choices),
        checkpointing=build.checkpointing(choices),
        loss=build.loss(choices, microbatch * required.total),
        evaluation=build.evaluation(choices, microbatch),
        adapters=build.adapters(choices),
        max_grad_norm=None if norm in (None, 0, "none") else float(norm),
        export=build.export(choices),
        exports_on_host=build.value(choices, "export_device") == "cpu",
        parallel=build.parallel(choices, card),
        preference=build.preference(choices),
        allocator=card.allocator,
        images=build.count(choices, "images"),
        image_size=build.count(choices, "image_size"),
    )


def _framework(card: Card) -> tuple[str, Message]:
    """The framework whose habits count, and why."""
    if card.engine is None:
        return USUAL, NO_ENGINE()
    known = framework_named(card.engine.name)
    return (USUAL, NO_HABITS(found=card.engine.name)) if known is None else (known, STATED(field="engine.name"))


def _of_the_card(card: Card, told: Message, version: str | None, *, is_shared: bool) -> Choices:
    """The fields that are the card's own, as choices."""
    is_named = told.code == STATED.code
    accumulation = STATED(field="accumulation") if card.accumulation else ONE_UPDATE()
    return {
        "framework": Choice("", told, "engine.name" if is_named else None),
        "framework_version": _own("engine.version", version),
        "tokens": Choice(0, STATED(field="tokens.required"), "tokens.required"),
        "microbatch": Choice(0, STATED(field="microbatch"), "microbatch"),
        "accumulation": Choice(0, accumulation, "accumulation" if card.accumulation else None),
        "allocator": _own("allocator", card.allocator),
        **{f"{name}_parallel": _placed(card, name, is_shared) for name in ("data", "tensor", "pipeline")},
    }


def _placed(card: Card, name: str, is_shared: bool) -> Choice:
    """A degree of the placement; one that is left out, or is 1, divides nothing."""
    if name == "data" and is_shared:
        found = ranks_field(card)
        return Choice("", STATED(field=found), found) if found else Choice("", NOT_DIVIDED())
    degree = getattr(card.placement, f"{name}_parallel", 1)
    field = f"placement.{name}_parallel"
    return Choice("", STATED(field=field), field) if degree != 1 else Choice("", NOT_DIVIDED())


def _own(field: str, value: str | None) -> Choice:
    return Choice("", NOT_STATED() if value is None else STATED(field=field), None if value is None else field)
