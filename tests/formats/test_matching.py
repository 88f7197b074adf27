"""Module lists, against the libraries that define them, and patterns meant to do harm."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import InputError, Place
from capienza.formats import matcher as matcher_module
from capienza.formats.expressions import ExpressionError
from capienza.formats.layout import Style
from capienza.formats.matcher import MAX_WORK, Matcher
from capienza.formats.matching import Module, checked, matches, module_names

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


NOT_UNDERSTOOD = [
    "(?P<n>a)", "(a)\\1", "a{", "(?i)a", "(", ")", "[", "[]", "*a", "a**", "a*+", "x" * 257, "(?(1)a|b)", "\\",
    "a{9999}", "a{2,1}", "a{,3}", "^*", "(?!a)b", "(?<=a)b", "\\b", "[z-a]", "[\\W]", "(" * 9 + "a" + ")" * 9, "\\é",
]  # fmt: skip


@pytest.mark.parametrize("pattern", NOT_UNDERSTOOD)
def test_patterns_outside_the_grammar_are_refused(pattern: str) -> None:
    with pytest.raises(InputError) as caught:
        checked("target", (f"re:{pattern}",), PLACE)
    assert caught.value.message.code == "formats.pattern"
    assert caught.value.place == PLACE


def test_a_set_in_a_shell_pattern_is_refused() -> None:
    with pytest.raises(InputError, match="is not understood"):
        checked("glob", ("model.layers.[0-9].mlp*",), PLACE)


@pytest.mark.parametrize(
    "pattern",
    [
        ".*mlp.gate$", r".*mlp\.experts\.\d+\.(gate|up|down)_proj$", "visual.*", r"model\.layers\.(0|5|12)\..+",
        r".*\.(q|k|v|o)_proj", "[^.]*lm_head", ".*layers[.](6[0-9]|7[0-9])[.]mlp.*", "a.*?b",
        r"^model\.layers\.\d{1,2}\..*", r".*layers\.(?:(?:1[0-9]|2[0-3])|0)\.mlp", r"\Amodel.*\Z",
        "model|lm_head", "(model|)",
    ],
)  # fmt: skip
def test_patterns_of_published_checkpoints_match_as_in_python(pattern: str) -> None:
    assert checked("target", (f"re:{pattern}",), PLACE)
    for name in ("model.layers.0.mlp.gate", "model.layers.12.mlp.experts.3.up_proj", "lm_head", "visual.x", "a.b"):
        assert matches("target", (f"re:{pattern}",), names(name)) == bool(re.match(pattern, name)), name


_ATOMS = st.sampled_from(["a", "b", ".", r"\.", r"\d", "[ab]", "[^a]", "[0-9.]", "$", "^", r"\w"])
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,}", "{0,2}"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(expression=_EXPRESSIONS, name=st.text("ab.0", min_size=1, max_size=7))
def test_expressions_match_as_in_python(expression: str, name: str) -> None:
    ends = list(Matcher((expression,)).ends(name))
    assert bool(ends) == bool(re.match(expression, name))
    assert (len(name) in ends) == bool(re.fullmatch(expression, name))


def test_several_expressions_are_their_alternatives() -> None:
    together = Matcher(("a.*c", "ab", "x$"))
    for name in ("abc", "ab", "x", "xy", "ac"):
        assert bool(list(together.ends(name))) == bool(re.match("a.*c|ab|x$", name))


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(.*)*x", "(.*a){40}x", ".*.*.*.*.*.*x", "(a?){64}b", "((a+)+)+$"]
)
def test_patterns_that_run_away_elsewhere_are_bounded_here(pattern: str) -> None:
    matcher = Matcher((pattern,))
    try:
        assert not list(matcher.ends("a" * 2000 + "!"))
    except ExpressionError:
        assert matcher.work > MAX_WORK
    assert matcher.work < MAX_WORK + 2 * len(matcher.graphs[0].nodes) + 1


def test_too_large_together_is_refused() -> None:
    many = tuple(f"re:(.{{64}}){{8}}{index}" for index in range(16))
    assert checked("target", many[:1], PLACE)
    with pytest.raises(InputError, match="the 16 patterns that choose modules are too costly"):
        checked("target", many, PLACE)


def test_too_costly_while_matching_is_refused_by_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher_module, "MAX_WORK", 2000)
    patterns = checked("target", tuple(f"re:.*[a-m].{{{index}}}z" for index in range(1, 60)), PLACE)
    with pytest.raises(InputError, match=r"^model\.0\.abc.*the 59 patterns .* too costly"):
        matches("target", patterns, names("model.0.abcdefghijklmnopqrstuvwxyabcdefghijklmnopqrstuvwxy"))


def test_thousands_of_plain_names_are_no_expressions() -> None:
    plain = tuple(f"model.layers.{index}.mlp.gate" for index in range(5000))
    assert checked("module", plain, PLACE) == plain
    assert matches("module", plain, names("model.layers.4999.mlp.gate"))
