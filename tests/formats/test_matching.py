"""Module lists, against the libraries that define them, and patterns meant to do harm."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import InputError, Place
from capienza.formats.layout import Style
from capienza.formats.matching import MAX_EXPRESSIONS, Module, checked, matches, module_names

PLACE = Place("config.json", key="quantization_config.ignore")
PIECES = ["model", "layers", "1", "11", "mlp", "gate", "gate_proj", "self_attn", "q_proj", "experts", "lm_head"]


def names(*given_names: str) -> Module:
    return Module(given_names, "Linear")


@pytest.mark.parametrize(
    ("style", "pattern", "matching", "not_matching"),
    [
        ("module", "model.layers.1", "model.layers.1.mlp.gate", "model.layers.11.mlp.gate"),
        ("module", "lm_head", "model.lm_head", "lm_head.x"[:4]),
        ("module", "gate", "layers.0.mlp.gate", "layers.0.mlp.gate_proj"),
        ("module", "model.layers.*.self_attn", "model.layers.7.self_attn.q_proj", "model.layers.7.mlp.up_proj"),
        ("target", "lm_head", "lm_head", "model.lm_head"),
        ("target", "model.layers.0.mlp", "model.layers.0.mlp", "model.layers.0.mlp.up_proj"),
        ("target", "re:.*mlp.gate$", "model.layers.0.mlp.gate", "model.layers.0.mlp.gate_proj"),
        ("glob", "model.layers.*.self_attn*", "model.layers.3.self_attn.q_proj", "model.layers.3.mlp"),
        ("glob", "model.layers.0", "model.layers.0.mlp", "model.layers.01"),
        ("regex", ".*down", "model.mlp.down_proj", "model.mlp.up_proj"),
        ("suffix", "mlp.up_proj", "model.layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj.x"),
    ],
)
def test_spelling_rules(style: Style, pattern: str, matching: str, not_matching: str) -> None:
    assert matches(style, (pattern,), names(matching))
    assert not matches(style, (pattern,), names(not_matching))


def test_classes_match_by_kind_only() -> None:
    assert matches("target", ("Linear",), Module(("anything",), "Linear"))
    assert not matches("target", ("Linear",), Module(("anything",), "Embedding"))
    assert not matches("module", ("Linear",), Module(("anything",), "Linear"))


def test_fused_experts_answer_to_separate_ones() -> None:
    found = module_names("model.layers.0.mlp.experts.gate_up_proj")
    for name in (
        "model.layers.0.mlp.experts",
        "model.layers.0.mlp.experts.0.gate_proj",
        "model.layers.0.mlp.experts.0.w3",
    ):
        assert name in found
    assert "model.layers.0.mlp.experts.0.w2" in module_names("model.layers.0.mlp.experts.down_proj")
    assert module_names("model.layers.0.shared_experts.up_proj.weight")[0] == "model.layers.0.shared_experts.up_proj"


@pytest.mark.oracle
@settings(max_examples=300, deadline=None)
@given(
    name=st.lists(st.sampled_from(PIECES), min_size=1, max_size=5),
    patterns=st.lists(
        st.lists(st.sampled_from([*PIECES, "*", "pro", ""]), min_size=1, max_size=4).map(".".join), max_size=3
    ),
)
def test_module_style_is_transformers_own(name: list[str], patterns: list[str]) -> None:
    utils = pytest.importorskip("transformers.quantizers.quantizers_utils")
    kept = tuple(pattern for pattern in patterns if pattern and not pattern.startswith("*"))
    full = ".".join(name)
    assert matches("module", kept, names(full)) is not utils.should_convert_module(full, list(kept))


@given(
    name=st.lists(st.sampled_from(PIECES), min_size=1, max_size=5),
    pattern=st.lists(st.sampled_from([*PIECES, "*", "*q*"]), min_size=1, max_size=4).map(".".join),
)
def test_glob_style_is_the_shells(name: list[str], pattern: str) -> None:
    full = ".".join(name)
    contained = any(full.startswith(pattern + end) for end in (".",))
    assert matches("glob", (pattern,), names(full)) == (fnmatch.fnmatchcase(full, pattern) or contained)


HARMFUL = [
    "(a+)+$", "(.*)*x", "(a|a)*b", "((a)|b)c", ".*.*.*.*x", "a?b?c?d?e?", "(.|a)(.|b)x", "(?P<n>a)", "(a)\\1",
    "(?i)a", "(", "[", "*a", "a{1,2}{3}" * 2, "x" * 257, "(a{2,}){2,}", "(?:(?:a))+", "(?(1)a|b)", "\\",
    "a{99999999999}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", HARMFUL)
def test_patterns_that_could_run_away_are_refused(pattern: str) -> None:
    with pytest.raises(InputError) as caught:
        checked("target", (f"re:{pattern}",), PLACE)
    assert caught.value.message.code == "formats.unsafe-pattern"
    assert caught.value.place == PLACE


@pytest.mark.parametrize(
    "pattern",
    [
        ".*mlp.gate$", r".*mlp\.experts\.\d+\.(gate|up|down)_proj$", "visual.*", r"model\.layers\.(0|5|12)\..+",
        "^(?!.*self_attn).*$", r".*\.(q|k|v|o)_proj", "[^.]*lm_head", ".*layers[.](6[0-9]|7[0-9])[.]mlp.*", "a.*?b",
    ],
)  # fmt: skip
def test_patterns_of_published_checkpoints_are_accepted(pattern: str) -> None:
    assert checked("target", (f"re:{pattern}",), PLACE)
    assert matches("target", (f"re:{pattern}",), names("model.layers.0.mlp.gate")) == bool(
        re.match(pattern, "model.layers.0.mlp.gate")
    )


def test_too_many_expressions_are_refused() -> None:
    many = tuple(f"re:.*layers.{index}.*" for index in range(MAX_EXPRESSIONS + 1))
    assert checked("target", many[1:], PLACE) == many[1:]
    with pytest.raises(InputError, match=r"65 patterns with wildcards; at most 64"):
        checked("target", many, PLACE)


def test_thousands_of_plain_names_are_no_expressions() -> None:
    plain = tuple(f"model.layers.{index}.mlp.gate" for index in range(5000))
    assert checked("module", plain, PLACE) == plain
    assert matches("module", plain, names("model.layers.4999.mlp.gate"))
