"""The Python functions: every command has one, they stay callable, and their modules never take their place."""

import pytest

import capienza


def test_what_is_listed_is_there_twice_over():
    for name in capienza.api.__all__:
        assert callable(getattr(capienza.api, name)), name
        assert callable(getattr(capienza.api, name)), name
    assert dir(capienza.api) == sorted(capienza.api.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        capienza.api.nothing  # noqa: B018 - the access is the test


def test_functions_take_and_give_plain_values(examples, tmp_path):
    sizing = capienza.api.size(examples / "cards" / "llama-3.1-8b.yaml", gpu="L4")
    assert sizing.ledger.weights_only().amount.floor == 16_060_522_496
    assert sizing.worst_peak().missing
    (row,) = capienza.api.arithmetic(7_000_000_000, 16)
    assert row.weights_only_bytes == 14_000_000_000
    assert [device.key for device in capienza.api.devices("L4")] == ["l4"]
    two = examples / "offers" / "two-cards.yaml"
    assert len(list(capienza.api.offers([two]))) == 2
    assert capienza.api.offers_check([two]).count == 2
    assert capienza.api.offers_import(two, tmp_path / "two.jsonl").count == 2
    decided = capienza.api.decide(examples / "cards" / "plain-7b.yaml", [two])
    assert [one.decision.state for one in decided.judged] == ["to_confirm", "to_confirm"]
    again = capienza.api.decide(examples / "cards" / "plain-7b.yaml", [two])
    assert capienza.api.decision_document(again, "md").startswith("# Decision: plain-7b")
    assert capienza.api.card_check(examples / "cards" / "plain-7b.yaml").name == "plain-7b"
    assert "capienza: 1" in capienza.api.card_new("Qwen/Qwen3-8B")
    assert capienza.api.card_schema()["type"] == "object"


def test_the_codes_that_lower_a_floor_are_those_of_the_comparison():
    from capienza.architecture.compare import DIFFERENT, MORE_LAYERS, OTHER_SHAPES
    from capienza.predict.model import LACKING
    from capienza.predict.sizing import DOUBTED_BY

    assert DIFFERENT.code == LACKING
    assert {
        "cache": {DIFFERENT.code, MORE_LAYERS.code, OTHER_SHAPES.code},
        "weights": {MORE_LAYERS.code},
    } == DOUBTED_BY


def test_phases_are_one_vocabulary():
    from capienza.evidence.vocabulary import PHASES
    from capienza.ledger.phase import Phase

    assert tuple(Phase) == PHASES


def test_the_package_says_what_it_has_not():
    with pytest.raises(AttributeError, match="nothing"):
        capienza.nothing  # noqa: B018 - the access is the test
