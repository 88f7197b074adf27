"""The how-to is one text in two languages: what one page has, the other has too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PARTS = {
    "sections": r"^## ",
    "steps": r"^\d\. \*\*",
    "table rows": r"^\|",
    "tables": r"^\| ---",
    "code blocks": r"^ *```\w+$",
    "commands": r"^ *(?:capienza|python|llama-perplexity|scripts/fetch-models) ",
}


@pytest.mark.parametrize("part", PARTS)
def test_both_languages_have_the_same_parts_in_the_same_order(part: str) -> None:
    english, italian = (
        [len(re.findall(PARTS[part], each, re.MULTILINE)) for each in _sections(name)]
        for name in ("quality.md", "quality.it.md")
    )
    assert english == italian
    assert sum(english)


def test_both_languages_name_the_same_options_and_metrics() -> None:
    english, italian = (
        set(re.findall(r"(?<![\w`-])--[a-z][a-z-]+", _text(name))) for name in ("quality.md", "quality.it.md")
    )
    assert english - {"--lang"} == italian - {"--lang"}


def _text(name: str) -> str:
    return (HOWTO / name).read_text(encoding="utf-8")


def _sections(name: str) -> list[str]:
    return re.split(r"^(?=## )", _text(name), flags=re.MULTILINE)
