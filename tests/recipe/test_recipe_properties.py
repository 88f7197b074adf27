"""Whatever a card states: a complete recipe with an origin for every field, or a refusal; nothing is silently left."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from recipe_cards import card_of, flat

from capienza.card.options import plain_name
from capienza.card.training_kinds import FLAG
from capienza.card.training_options import OPTIONS, TrainingOption
from capienza.card.training_spellings import SPELLINGS
from capienza.errors import InputError, UsageError
from capienza.recipe.habits.lookup import frameworks
from capienza.recipe.optimizers import NAMES
from capienza.recipe.origins import BEHIND, WITHOUT_ORIGIN, leaves
from capienza.recipe.read import recipe_of
from capienza.recipe.recipe import (
    Adapters,
    Checkpointing,
    Evaluation,
    Loss,
    Optimizer,
    Parallel,
    Precision,
    Preference,
    Recipe,
)


def _values(option: TrainingOption) -> st.SearchStrategy[Any]:
    if option.kind is FLAG:
        return st.booleans()
    if "enum" in option.kind.schema:
        return st.sampled_from(option.kind.schema["enum"])
    if option.kind.schema.get("type") == "integer":
        return st.integers(option.kind.schema["minimum"], 64)
    if option.kind.text.startswith("whole number"):
        return st.sampled_from([1, 32, "none"])
    if option.kind.schema.get("type") == "number" or "number" in option.kind.text:
        return st.sampled_from([0, 0.5])
    return st.sampled_from(["q_proj v_proj", "lm_head", "nll", "bfd"])


STATED = st.fixed_dictionaries(
    {"method": st.sampled_from(["full", "lora", "dora", "qlora"])},
    optional={option.name: _values(option) for option in OPTIONS}
    | {
        "optimizer": st.sampled_from(sorted(NAMES)),
        "seed": st.just(7),
        "own_option": st.just("x"),
        "lora_alpha": st.just(16),
        "bf16": st.booleans(),
        "zero_stage": st.integers(0, 3),
        "eval": st.just("none"),
        "export": st.sampled_from(["none", "adapter", "merge", "full_state", "bf16"]),
    },
)


@st.composite
def few(draw: st.DrawFn) -> dict[str, Any]:
    """A recipe that states a few of its options, so that many draws are sound."""
    found = draw(STATED)
    names = draw(st.lists(st.sampled_from(sorted(found)), max_size=5, unique=True))
    return {name: found[name] for name in {"method", *names}}


@given(
    few(),
    st.sampled_from(sorted(frameworks())),
    st.sampled_from([1, 4]),
    st.sampled_from(["bf16", "fp16", "fp32", "gptq-int4-g128"]),
)
def test_every_field_has_an_origin_and_every_option_is_told(
    stated: dict[str, Any], framework: str, copies: int, stored: str
) -> None:
    card = card_of(json.dumps(stated), f"engine: {{name: {framework}}}", f"placement: {{data_parallel: {copies}}}")
    try:
        recipe = recipe_of(card, stored, "llama")
    except (InputError, UsageError) as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert refusal.place.key or isinstance(refusal, UsageError), "a refusal names a key of the card"
        return
    told = {one.field: one for one in recipe.origins}
    assert set(flat(recipe)) <= set(told)
    mentioned = {str(one.source.parameters.get("field")) for one in recipe.origins}
    mentioned |= {str(one.parameters["field"]) for one in recipe.left_out}
    assert {f"training.{name}" for name in stated} <= mentioned
    assert all(not one.is_stated or one.source.code == "recipe.stated" for one in recipe.origins)
    assert recipe_of(card, stored, "llama") == recipe


def test_every_field_of_the_recipe_has_a_choice_behind_it() -> None:
    parts = {
        "precision": Precision, "optimizer": Optimizer, "checkpointing": Checkpointing, "loss": Loss,
        "evaluation": Evaluation, "adapters": Adapters, "parallel": Parallel, "preference": Preference,
    }  # fmt: skip
    fields = {
        f"{name}.{field}" if name in parts else name
        for name in Recipe.__struct_fields__
        if name not in WITHOUT_ORIGIN
        for field in (parts[name].__struct_fields__ if name in parts else [""])
    }
    assert set(BEHIND) == (fields - set(WITHOUT_ORIGIN)) | {"adapters", "preference"}


@pytest.mark.parametrize("name", sorted(SPELLINGS))
def test_a_framework_s_own_name_is_read_and_told(name: str) -> None:
    """Each spelling gives its option, or is refused where it says nothing; with dashes it means the same."""
    spelling = SPELLINGS[name]
    option = {one.name: one for one in OPTIONS}.get(spelling.option)
    if spelling.values is not None:
        value = next(iter(spelling.values))
    elif spelling.option == "optimizer":
        value = "sgd"
    else:
        value = 4 if option is None else _example(option)
    for written in (name, name.replace("_", "-")):
        card = card_of(f"{{method: lora, {written}: {json.dumps(value)}}}", "placement: {data_parallel: 4}")
        try:
            recipe = recipe_of(card, "bf16", "llama")
        except InputError as error:
            refused = plain_name(str(error.place.key).removeprefix("training."))
        else:
            refused = None
        if refused is not None:
            assert refused == name
            continue
        mentioned = {str(one.source.parameters.get("field")) for one in recipe.origins}
        mentioned |= {str(one.parameters["field"]) for one in recipe.left_out}
        assert f"training.{written}" in mentioned


def _example(option: TrainingOption) -> Any:
    from capienza import yamlmarks

    value = yamlmarks.load(option.example).value
    if isinstance(value, list):
        return [item.value for item in value]
    return float(value) if isinstance(value, Decimal) else value


def test_leaves_of_a_recipe_are_plain_values() -> None:
    recipe = recipe_of(card_of("{method: lora, objective: dpo}"), "bf16", "llama")
    assert {type(value) for _, value in leaves(recipe)} <= {str, int, float, bool, tuple, type(None)}
