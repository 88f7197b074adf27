"""A new card is valid as written, and stays valid with every comment sign taken away."""

import re

import pytest

from capienza.card.fields import fields
from capienza.card.load import parse_card
from capienza.card.model import ModelRef, Placement
from capienza.card.new import HEADINGS, OR_NONE, RARE, new_card
from capienza.errors import InputErrors
from capienza.recipe.choices import NO_MEMORY
from capienza.recipe.read import recipe_of


def uncommented(text: str) -> str:
    """The card with every field that waits in a comment put to use."""
    lines = text.splitlines()[len(HEADINGS) :]
    return "\n".join(re.sub(r"^( *)# ", r"\1", line) for line in lines)


@pytest.mark.parametrize("task", ["inference", "fine-tuning"])
@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "gpt2", "./model.gguf", "/m/Llama-3.1-8B", "~/a b: #c/", "x.gguf"])
def test_a_new_card_loads_before_and_after_it_is_filled_in(model, task):
    text = new_card(model, task=task, engine="vllm", gpus=2)
    card = parse_card(text)
    assert model in (card.model.id, card.model.path) or model.startswith(("./", "~"))
    assert card.task == task
    assert card.placement == Placement(gpus=2)
    full = parse_card(uncommented(text))
    assert full.tokens.required is not None
    assert full.calendar is not None
    assert (full.training is None) == (task == "inference")


def test_only_what_is_given_is_stated():
    card = parse_card(new_card("Qwen/Qwen3-8B", revision="main"))
    assert card.model == ModelRef(id="Qwen/Qwen3-8B", revision="main")
    assert card.name == "qwen3-8b"
    assert (card.engine, card.concurrency, card.reserve, card.host, card.budget) == (None,) * 5


@pytest.mark.parametrize(
    ("model", "name"),
    [("org/Llama-3.1-8B", "llama-3.1-8b"), ("./d/M.Q4_1.gguf", "m.q4_1"), ("./d/", "d"), ("no", "no"), ("1e5", "1e5")],
)
def test_the_name_comes_from_the_model(model, name):
    assert parse_card(new_card(model)).name == name


def test_every_field_that_applies_appears_once_with_its_comment():
    text = new_card("a/b") + new_card("a/b", task="fine-tuning") + new_card("./a")
    for field in fields():
        if field.path in (*RARE, "model.parameters", "model.bits") or field.parent in (
            "quality.metrics",
            "calendar.steps",
            "ranking",
            "calendar.steps.at_least",
            "tokens.short",
            "tokens.usual",
            "tokens.required",
        ):
            continue
        assert re.search(rf"^[# ]*{field.key}:.*# {re.escape(field.description)}", text, re.MULTILINE), field.path


def test_a_filled_in_fine_tuning_is_a_recipe():
    card = parse_card(uncommented(new_card("a/b", task="fine-tuning")))
    recipe = recipe_of(card, "bf16", "llama")
    assert (recipe.method, recipe.loss.kind, recipe.checkpointing.kind) == ("lora", "chunked", "full")
    assert recipe.left_out == (NO_MEMORY(field="training.alpha"),)


def test_the_comments_are_in_the_language_of_the_reader():
    seen: list[str] = []

    def translate(text: str) -> str:
        seen.append(text)
        return f"it-{len(text)}"

    text = new_card("a/b", translate=translate)
    assert not any(field.description in text for field in fields())
    assert {*HEADINGS, OR_NONE} <= set(seen)
    assert parse_card(uncommented(text)).name == "b"


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"model": "a/b/c"}, "model.id"),
        ({"model": ""}, "model.id"),
        ({"model": "a/b", "gpus": 0}, "placement.gpus"),
        ({"model": "a/b", "engine": "a\nb"}, "engine.name"),
        ({"model": "a/b", "task": "training"}, "task"),
    ],
)
def test_what_makes_no_valid_card_is_refused(arguments, key):
    with pytest.raises(InputErrors) as caught:
        new_card(**arguments)
    assert key in [problem.place.key for problem in caught.value.problems]
