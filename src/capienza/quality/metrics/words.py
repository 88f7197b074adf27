"""Right or wrong by the words of an answer: the same text, the label of a choice, a number, a pattern.

None: the output holds nothing that could be judged, which is another thing than a wrong answer and is counted apart.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from functools import lru_cache

from capienza.quality.corpus import Item

CASE, PUNCTUATION, ARTICLES = "case", "punctuation", "articles"
IGNORABLE = (CASE, PUNCTUATION, ARTICLES)
_ARTICLES = re.compile(r"\b(?:a|an|the|il|lo|la|i|gli|le|un|uno|una)\b|\bl'")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_BOXED = re.compile(r"\\boxed\{([^{}]{1,200})\}")
_MOST_LABEL_TEXT = 2_000
_WORDS = frozenset("AEIO")
"""Labels that are also words, of English or of Italian."""
_GOES_ON = re.compile(r"\s+(?!is\b|è\b)[a-zà-ü]")


def same_text(text: str, ignore: frozenset[str]) -> str:
    """The form in which two texts are compared: NFKC, single spaces, and without what is ignored."""
    text = unicodedata.normalize("NFKC", text)
    if CASE in ignore:
        text = text.casefold()
    if ARTICLES in ignore:
        text = _ARTICLES.sub(" ", text)
    if PUNCTUATION in ignore:
        text = text.translate(_PUNCTUATION)
    return " ".join(text.split())


def exact_match(item: Item, output: str, ignore: frozenset[str]) -> bool:
    """Is the output one of the accepted texts?"""
    return same_text(output, ignore) in {same_text(accepted, ignore) for accepted in item.expected}


def choice(item: Item, output: str) -> bool | None:
    """Is the chosen label one that is accepted? None where the output names no label, or several.

    A label counts where it stands alone at the very start ("B", "(B)", "B. Rome"), after a last "answer is" or
    "answer:", in a last box, or as the only label that stands alone anywhere.
    """
    is_label = output in item.choices
    named = output if is_label else _label(output[:_MOST_LABEL_TEXT], output[-_MOST_LABEL_TEXT:], item.choices)
    if named is None:
        return None
    return named.casefold() in {accepted.strip().casefold() for accepted in item.expected}


@lru_cache(maxsize=1024)
def _patterns(labels: tuple[str, ...]) -> tuple[dict[str, str], tuple[re.Pattern[str], ...]]:
    """The labels by their folded form, and where one counts: boxed, announced, first, anywhere."""
    by_folded = {label.casefold(): label for label in labels}
    either = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    alone = rf"[\s(\[*\"'`]*({either})(?![\w'’])[)\].:*\"'`]*"
    # A label that is a word of the language ("A") is one only where it is written as the label is.
    flags = 0 if all(len(label) == 1 for label in labels) else re.IGNORECASE
    texts = (
        rf"\\boxed\{{\s*({either})\s*\}}",
        rf"(?i:answer|choice|option|risposta)(?i:\s+is|\s+è)?\s*:?{alone}",
        rf"{alone}(?=\s|$)",
        rf"(?<![\w'’])({either})(?![\w'’])",
    )
    return by_folded, tuple(re.compile(text, flags) for text in texts)


def _label(start: str, end: str, labels: tuple[str, ...]) -> str | None:
    by_folded, (boxed, announced, first_of_all, anywhere) = _patterns(labels)
    for pattern in (boxed, announced):
        if said := pattern.findall(end):
            return by_folded[said[-1].casefold()]
    first = first_of_all.match(start)
    if first and (first.end() >= len(start.rstrip()) or start[first.end(1)] in ").:]*\n"):
        return by_folded[first[1].casefold()]
    found = list(anywhere.finditer(end))
    named = {each[1].casefold() for each in found}
    if len(named) != 1 or all(_is_a_word(each[1], end[each.end() :]) for each in found):
        return None
    return by_folded[named.pop()]


def _is_a_word(label: str, rest: str) -> bool:
    """Is the label a word of a sentence here, as in "A good idea"?"""
    return label in _WORDS and _GOES_ON.match(rest) is not None


def numeric(item: Item, output: str, tolerance: float, relative: float) -> bool | None:
    """Is the last number of the output within the tolerance of an accepted one? None where it holds no number."""
    found = last_number(output)
    if found is None:
        return None
    accepted = [number for text in item.expected if (number := last_number(text)) is not None]
    return any(math.isclose(found, number, rel_tol=relative, abs_tol=tolerance) for number in accepted)


def last_number(text: str) -> float | None:
    """The last number of a text, that of the last box where there is one; thousands may be parted by commas."""
    boxed = _BOXED.findall(text)
    numbers = _NUMBER.findall(boxed[-1]) if boxed else []
    numbers = numbers or _NUMBER.findall(text[-_MOST_LABEL_TEXT * 5 :])
    if not numbers:
        return None
    value = float(numbers[-1].replace(",", ""))
    return value if math.isfinite(value) else None


def matches(output: str, pattern: re.Pattern[str]) -> bool:
    """Does the pattern occur in the output?"""
    return pattern.search(output) is not None
