"""The JSON Schema and the loader follow one table: they agree on good cards and on bad ones."""

from pathlib import Path
from typing import Any

import pytest
from card_cases import BAD_TO_ALL, BAD_TO_THE_LOADER, DESIGN_CARD, plain
from jsonschema import Draft202012Validator

from capienza import canon, yamlmarks
from capienza.card.fields import fields
from capienza.card.load import load_card
from capienza.card.schema import json_schema

EXAMPLES = Path(__file__).parents[2] / "examples" / "cards"
SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def described(schema: dict[str, Any], path: str = ""):
    """Every field of the schema, by path."""
    for option in [schema, *schema.get("anyOf", [])]:
        inner = option.get("items", option)
        for key, child in inner.get("properties", {}).items():
            here = f"{path}.{key}" if path else key
            yield here, child
            yield from described(child, here)


def test_it_is_a_schema():
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_field_is_in_the_schema_with_its_description_and_a_valid_example():
    found = dict(described(SCHEMA))
    assert list(found) == [field.path for field in fields()]
    for path, child in found.items():
        assert child["description"].endswith("."), path
        for example in child["examples"]:
            Draft202012Validator(child).validate(example)


def test_every_field_says_what_it_is_for_once():
    for field in fields():
        assert field.description[0].isupper(), field.path
        assert field.type_text, field.path
        assert field.example, field.path
    assert len({field.path for field in fields()}) == len(fields())


def schema_accepts(text: str) -> bool:
    return bool(VALIDATOR.is_valid(plain(yamlmarks.load(text))))


@pytest.mark.parametrize("text", BAD_TO_ALL, ids=[" ".join(problems) for problems in BAD_TO_ALL.values()])
def test_an_editor_refuses_what_the_loader_refuses(text):
    assert not schema_accepts(text)


@pytest.mark.parametrize("text", BAD_TO_THE_LOADER, ids=[" ".join(problems) for problems in BAD_TO_THE_LOADER.values()])
def test_what_a_schema_cannot_say_is_known(text):
    """A card that moves from here to the other table has made the schema better."""
    assert schema_accepts(text)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_card_is_valid_for_both(path):
    VALIDATOR.validate(plain(yamlmarks.load(path.read_bytes())))
    card = load_card(path)
    assert card.name == path.stem
    assert path.read_text().startswith("# yaml-language-server: $schema=card.schema.json\n")


def test_the_card_of_the_design_is_valid():
    VALIDATOR.validate(plain(yamlmarks.load(DESIGN_CARD)))


def test_the_schema_beside_the_examples_is_the_present_one():
    """Written by: capienza card schema > examples/cards/card.schema.json."""
    assert (EXAMPLES / "card.schema.json").read_text() == canon.pretty(SCHEMA) + "\n"


def test_the_examples_name_the_models_and_lengths_of_the_comparison():
    wanted = {
        "llama-3.1-8b": ("meta-llama--Llama-3.1-8B", 32768),
        "deepseek-v3": ("deepseek-ai--DeepSeek-V3", 32768),
        "gemma-3-27b": ("google--gemma-3-27b-it", 131072),
        "gpt-oss-20b": ("openai--gpt-oss-20b", 131072),
        "qwen3-next-80b": ("Qwen--Qwen3-Next-80B-A3B-Instruct", 262144),
    }
    for name, (folder, tokens) in wanted.items():
        card = load_card(EXAMPLES / f"{name}.yaml")
        assert card.model.path == str(EXAMPLES / "../configs" / folder)
        assert card.tokens.required is not None
        assert (card.tokens.required.total, card.concurrency) == (tokens, 1)
