"""Lines that a terminal cut at its width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capienza.logs.lines import Line
from capienza.logs.wrapped import MOST_WAITING, Unwrapper

word = st.text("abcdefghij", min_size=1, max_size=30)
sentence = st.lists(word, min_size=1, max_size=60).map(lambda words: "a" + " ".join(words))


def cut(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)] or [""]


def whole(lines: list[str], pieces: int = 1) -> list[str]:
    unwrapper, numbered = Unwrapper(), [Line(number, text) for number, text in enumerate(lines, 1)]
    found = [line for at in range(0, len(numbered), pieces) for line in unwrapper.feed(numbered[at : at + pieces])]
    return [line.text for line in [*found, *unwrapper.close()]]


@given(st.lists(sentence, min_size=1, max_size=8), st.sampled_from([80, 100, 120]), st.integers(1, 7))
def test_what_a_terminal_cut_is_whole_again(sentences, width, pieces):
    lines = [f"[rank{number}]: {text}" for number, text in enumerate(sentences)]
    lines = [text for text in lines if len(text) % width]  # nothing tells that a line of the full width was whole
    shown = [part for text in lines for part in cut(text, width)]
    assert whole(shown, pieces) == lines


@given(st.lists(sentence.map(lambda text: text[:59]), max_size=20))
def test_short_lines_stay_as_they_are(lines):
    assert whole(lines) == lines


@pytest.mark.parametrize(
    "lines",
    [
        ["x" * 301, "y" * 80, "z"],
        ["step 17 loss 0.25 " + "." * 62] * 5,
        [f"[rank{rank}]: RuntimeError: " + "x" * 70 for rank in range(4)],
        ["2026-01-05 06:12:41 INFO " + "x" * 55, "2026-01-05 06:12:42 INFO done"],
        ["+" + "-" * 78 + "+", "| GPU  Name" + " " * 68 + "|", "+" + "-" * 78 + "+"],
        ["w" * 73, "one line of the longest length, of no usual width"],
    ],
)
def test_lines_of_their_own_are_not_joined(lines):
    assert whole(lines) == lines


def test_a_longer_line_later_ends_the_joining():
    lines = ["a" * 80, "b", *["c"] * MOST_WAITING, "d" * 200, "e" * 80, "f"]
    assert whole(lines) == ["a" * 80 + "b", *["c"] * MOST_WAITING, "d" * 200, "e" * 80, "f"]
