"""What of a recipe a GPU cannot compute, by its compute capability."""

from __future__ import annotations

import pytest
from recipe_cards import made

from capienza.recipe.hardware import lacking


@pytest.mark.parametrize(
    ("training", "capability", "fields"),
    [
        ("{method: full, bf16: true}", (7, 5), []),
        ("{method: full, fp8: true}", (8, 6), ["fp8"]),
        ("{method: full, fp8: true}", (8, 9), []),
        ("{method: full, attention: flash_attention_2}", (7, 5), ["attention"]),
        ("{method: full, attention: flash_attention_3}", (8, 0), ["attention"]),
        ("{method: full, attention: flash_attention_3}", (9, 0), []),
        ("{method: full, attention: flash_attention_3}", (10, 0), ["attention"]),
    ],
)
def test_a_gpu_that_lacks_something_is_told_so(training: str, capability: tuple[int, int], fields: list[str]) -> None:
    assert [one.parameters["field"] for one in lacking(made(training), [capability])] == fields


def test_only_what_all_candidates_lack_is_told() -> None:
    recipe = made("{method: full, fp8: true}")
    assert [one.parameters["field"] for one in lacking(recipe, [(8, 0), (8, 6)])] == ["fp8"]
    assert lacking(recipe, [(8, 0), (9, 0)]) == ()
    assert lacking(recipe, [(8, 0), None]) == ()
    assert lacking(recipe, []) == ()
