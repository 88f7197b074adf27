"""Numbers and moments inside sentences: the marks of the language, the clock of the reader, releases untouched."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest

from capienza.decide.cost import CostPart
from capienza.errors import Message
from capienza.i18n.translator import speaker
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
    assert formula_text(part, speaker("en")) == part.formula
    assert formula_text(part, speaker("it")) == "1,10 USD/h x 2 nodo x 2,4 .. 24 h"
