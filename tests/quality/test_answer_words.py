"""Right or wrong by the words of an answer: tables of what people and models write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.quality.corpus import Item
from capienza.quality.metrics.words import choice, exact_match, last_number, matches, numeric, same_text

LETTERS = Item(id="1", cluster="1", prompt="?", expected=("B",), choices=("A", "B", "C", "D"))


@pytest.mark.parametrize(
    "output, right",
    [
        ("B", True), ("(B)", True), ("B. Rome", True), ("B) Rome", True), ("**B**", True), ("\\boxed{B}", True),
        ("The answer is B", True), ("Answer: (B)", True), ("So the choice is B, not A.", True), ("B is right", True),
        ("A good question. The answer is B.", True), ("La risposta è B", True),
        ("C", False), ("Option C", False), ("The answer is (D).", False),
        ("", None), ("b", None), ("A or B?", None), ("A city", None), ("Rome", None),
        ("I think it is B because A is wrong", None),
    ],
)  # fmt: skip
def test_the_label_of_a_choice(output: str, right: bool | None) -> None:
    assert choice(LETTERS, output) is right


def test_labels_that_are_words() -> None:
    item = Item(id="1", cluster="1", prompt="?", expected=("yes",), choices=("yes", "no"))
    assert choice(item, "Yes.") is True
    assert choice(item, "No, it is not.") is None or choice(item, "No, it is not.") is False
    assert choice(item, "yes and no") is None


@pytest.mark.parametrize(
    "text, number",
    [
        ("42", 42), ("The answer is 1,234.50.", 1234.5), ("x = -3e2", -300), (".5", 0.5), ("10/2 = 5", 5),
        ("2026-11-30", 30), ("$1,000", 1000), ("\\boxed{7} and 3", 7), ("none", None), ("1e999", None), ("v2", None),
    ],
)  # fmt: skip
def test_the_last_number(text: str, number: float | None) -> None:
    assert last_number(text) == number


def test_tolerances() -> None:
    item = Item(id="1", cluster="1", prompt="?", expected=("100",))
    assert numeric(item, "about 101", 1, 0) is True
    assert numeric(item, "about 101", 0, 0.01) is True
    assert numeric(item, "about 101", 0.5, 0) is False
    assert numeric(item, "no idea", 1, 1) is None


@pytest.mark.parametrize(
    "output, ignore, right",
    [
        ("Rome", (), True), (" Rome \n", (), True), ("Ｒome", (), True), ("rome", (), False),
        ("rome", ("case",), True), ("Rome.", (), False), ("Rome.", ("punctuation",), True),
        ("The Rome", ("case", "articles"), True), ("Paris", ("case", "punctuation", "articles"), False),
    ],
)  # fmt: skip
def test_the_same_text(output: str, ignore: tuple[str, ...], right: bool) -> None:
    item = Item(id="1", cluster="1", prompt="?", expected=("Rome", "Roma"))
    assert exact_match(item, output, frozenset(ignore)) is right


@given(st.text(), st.frozensets(st.sampled_from(["case", "punctuation", "articles"])))
def test_comparing_forms_is_settled_at_once(text: str, ignore: frozenset[str]) -> None:
    once = same_text(text, ignore)
    assert " ".join(once.split()) == once


@given(st.text(max_size=300))
def test_no_output_is_too_strange_to_be_judged(output: str) -> None:
    assert choice(LETTERS, output) in (True, False, None)
    assert numeric(Item(id="1", cluster="1", prompt="?", expected=("1",)), output, 0, 0) in (True, False, None)


def test_a_pattern_is_looked_for() -> None:
    assert matches("so: yes", re.compile(r"\byes$"))
    assert not matches("yesterday", re.compile(r"\byes$"))
