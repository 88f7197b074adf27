"""A recipe against a model's modules and a GPU's capability."""

from __future__ import annotations

import pytest
from recipe_cards import card_of

from capienza.errors import InputErrors
from capienza.recipe.against import check_adapters, is_target, unsupported
from capienza.recipe.read import recipe_of

MODULES = {
    "model.layers.0.self_attn.q_proj": (64, 64),
    "model.layers.0.self_attn.v_proj": (16, 64),
    "model.layers.0.mlp.up_proj": (256, 64),
}
OTHERS = ("model.embed_tokens", "lm_head", "model.norm")


def problems(training: str) -> list[str]:
    card = card_of(training)
    recipe = recipe_of(card, "bf16", "llama")
    try:
        check_adapters(card, recipe, MODULES, OTHERS)
    except InputErrors as error:
        return [f"{one.message.code.removeprefix('recipe.')} {one.place.key}" for one in error.problems]
    return []


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ("{method: full}", []),
        ("{method: lora}", []),
        ("{method: lora, rank: 16, targets: [q_proj, self_attn.v_proj]}", []),
        ("{method: lora, rank: 17, targets: [q_proj, v_proj]}", ["rank-too-large training.rank"]),
        ("{method: lora, rank: 17, targets: q_proj}", []),
        ("{method: lora, rank: 65, targets: all-linear}", ["rank-too-large training.rank"]),
        ("{method: lora, targets: [q_proj, w_pack]}", ["unknown-target training.targets"]),
        ("{method: lora, target_modules: proj}", ["unknown-target training.target_modules"]),
        ("{method: lora, modules_to_save: [lm_head, embed_tokens]}", []),
        ("{method: lora, modules_to_save: wte}", ["unknown-target training.modules_to_save"]),
    ],
)
def test_targets_and_ranks_are_the_models_own(training: str, expected: list[str]) -> None:
    assert problems(training) == expected


def test_the_models_modules_are_listed_with_the_likely_one() -> None:
    card = card_of("{method: lora, targets: q_prj}")
    with pytest.raises(InputErrors) as caught:
        check_adapters(card, recipe_of(card, "bf16"), MODULES, OTHERS)
    (row,) = caught.value.as_dict()
    assert "q_proj, up_proj, v_proj" in row["message"]
    assert "q_proj" in row["hint"]


def test_a_target_is_the_end_of_a_name_at_a_point() -> None:
    assert is_target("a.q_proj", ["q_proj"])
    assert is_target("q_proj", ["q_proj"])
    assert not is_target("a.kq_proj", ["q_proj"])


@pytest.mark.parametrize(
    ("training", "capability", "fields"),
    [
        ("{method: full, bf16: true}", (7, 5), ["mixed_precision"]),
        ("{method: full}", (7, 5), ["weights.format"]),
        ("{method: full, bf16: true}", (8, 0), []),
        ("{method: full, fp8: true}", (8, 6), ["fp8"]),
        ("{method: full, fp8: true}", (8, 9), []),
        ("{method: full, attention: flash_attention_2}", (7, 5), ["weights.format", "attention"]),
        ("{method: full, attention: flash_attention_3}", (8, 0), ["attention"]),
        ("{method: full, attention: flash_attention_3}", (9, 0), []),
        ("{method: full, attention: flash_attention_3}", (10, 0), ["attention"]),
    ],
)
def test_a_gpu_that_lacks_something_is_told_so(training: str, capability: tuple[int, int], fields: list[str]) -> None:
    found = list(unsupported(recipe_of(card_of(training), "bf16"), capability))
    assert [one.parameters["field"] for one in found] == fields
