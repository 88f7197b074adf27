"""Numbers and moments inside sentences: the marks of the language, the clock of the reader, releases untouched."""

from __future__ import annotations

import datetime
import zoneinfo

import msgspec
import pytest

from capienza.decide.cost import CostPart
from capienza.errors import Message
from capienza.i18n.translator import speaker
from capienza.measure.stage import WORDS
from capienza.report.bill import formula_text

ROME = zoneinfo.ZoneInfo("Europe/Rome")


def shown(language: str, zone: datetime.tzinfo | None = None, **parameters: str) -> str:
    name = next(iter(parameters))
    return speaker(language).in_zone(zone).message(Message("x", f"{{{name}}}", "", dict(parameters)))


@pytest.mark.parametrize(
    ("parameters", "english", "italian"),
    [
        ({"planned": "76.8"}, "76.8", "76,8"),
        ({"percent": "22"}, "22", "22"),
        ({"version": "12.8"}, "12.8", "12.8"),
        ({"needed": "12.8"}, "12.8", "12.8"),
        ({"expires": "2026-12-07T21:12:00+00:00"}, "7 Dec 2026, 22:12 (UTC+01:00)", "7 dic 2026, 22:12 (UTC+01:00)"),
        ({"found": "2026-12-07T21:12:00+00:00"}, "2026-12-07T21:12:00+00:00", "2026-12-07T21:12:00+00:00"),
        ({"date": "2026-12-07"}, "2026-12-07", "2026-12-07"),
    ],
)
def test_only_hours_and_moments_change(parameters, english, italian):
    assert shown("en", ROME, **parameters) == english
    assert shown("it", ROME, **parameters) == italian


def test_without_a_zone_a_moment_keeps_its_own_clock():
    assert shown("en", expires="2026-07-01T09:00+05:30") == "1 Jul 2026, 09:00 (UTC+05:30)"
    assert shown("en", ROME, expires="2026-07-01T09:00+05:30") == "1 Jul 2026, 05:30 (UTC+02:00)"


def test_the_last_day_there_is_can_be_shown():
    last = datetime.datetime.max.replace(tzinfo=datetime.UTC)
    assert speaker("en").in_zone(zoneinfo.ZoneInfo("Asia/Tokyo")).moment(last).startswith("31 Dec 9999")


def test_formulas_have_the_marks_and_words_of_the_language():
    part = CostPart(name="price", minimum=None, planned=None, formula="1.10 USD/h x 2 node x 2.4 .. 24 h")
    assert formula_text(part, speaker("en")) == "1.10 USD/h x 2 nodes x 2.4 .. 24 h"
    assert formula_text(part, speaker("it")) == "1,10 USD/h x 2 nodi x 2,4 .. 24 h"
    one = msgspec.structs.replace(part, formula="1.10 USD/h x 1 node x 24 h")
    assert formula_text(one, speaker("it")) == "1,10 USD/h x 1 nodo x 24 h"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("No such file or directory", "file o cartella inesistente"),
        ("JSON is malformed: trailing comma in object (byte 8)", "JSON malformato (byte 8)"),
        ("Expecting value: line 1 column 2 (char 1)", "manca un valore: riga 1, colonna 2"),
        ("Expected `int | null`, got `str` - at `$.tokens`", "atteso `int | null`, trovato `str` in `$.tokens`"),
        ("Object contains unknown field `x` - at `$`", "il campo `x` non è noto"),
        ("did not find expected ',' or ']'", "manca una ',' o una ']'"),
        ("'utf-8' codec can't decode byte 0xff in position 0: x", "il byte 0xff alla posizione 0 non è UTF-8"),
        ("a text of somebody else", "a text of somebody else"),
    ],
)
def test_what_the_system_and_parsers_say_is_in_the_readers_language(text, shown):
    said = Message("x", "{problem}", "", {"problem": text})
    assert speaker("it").message(said) == shown
    assert speaker("en").message(said) == text


def test_phrases_in_a_list_are_translated_and_names_are_not():
    said = Message("x", "{found}", "", {"found": [WORDS["prompt"], "a_name"]})
    assert speaker("it").message(said) == "il prompt, a_name"


def test_what_is_not_there_is_nothing_and_no_word_of_python():
    said = Message("x", "states {found}", "", {"found": None})
    assert str(said) == speaker("en").message(said) == "states nothing"
    assert speaker("it").message(Message("x", "{found}", "", {"found": None})) == "nulla"
