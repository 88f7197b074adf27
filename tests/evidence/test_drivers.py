"""Drivers are compared number by number: a worked table, a random oracle on tuples, and what is no range."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capienza.errors import InputError
from capienza.evidence.drivers import is_range, is_version, within
from capienza.evidence.record import Record, Scope
from capienza.evidence.store import seal

NUMBERS = st.lists(st.integers(0, 600), min_size=1, max_size=4)


@pytest.mark.parametrize(
    "version, stated, is_within",
    [
        ("550.54.15", ">=550,<590", True),
        ("550.9", ">=550.54", False),
        ("550.54", ">=550.9", True),
        ("590", "<590", False),
        ("590.0.0", "<=590", True),
        ("580.65.06", ">=580,<581", True),
        ("580.65.06", "580", False),
        ("580.0", "580", True),
        ("1000.1", ">=999", True),
        ("550", "> 549.99, <= 550", True),
        ("550", ">550", False),
        ("550.x", ">=550", False),
        ("", ">=550", False),
    ],
)
def test_worked_table(version, stated, is_within):
    assert within(version, stated) is is_within


@settings(max_examples=2000)
@given(NUMBERS, NUMBERS, NUMBERS)
def test_bounds_agree_with_padded_tuples(version, low, high):
    def padded(numbers):
        return tuple([*numbers, 0, 0, 0][:4])

    def text(numbers):
        return ".".join(map(str, numbers))

    expected = padded(low) <= padded(version) < padded(high)
    assert within(text(version), f">={text(low)},<{text(high)}") is expected
    assert within(text(version), text(low)) is (padded(version) == padded(low))
    assert is_range(f">={text(low)},<{text(high)}") is (padded(low) < padded(high))


@pytest.mark.parametrize(
    "text",
    ["", "any driver", "550.", "v550", "=550", "==550", "550-590", ">=590,<550", "<0", "5" * 7, ">=1" + ",<9" * 60],
)
def test_what_is_no_range_is_refused_when_the_record_is_made(text):
    assert not is_range(text)
    with pytest.raises(InputError) as refused:
        seal(Record(kind="document", version="1", date=datetime.datetime.now(datetime.UTC), scope=Scope(driver=text)))
    assert refused.value.message.code == "evidence.driver-not-understood"


def test_versions():
    assert is_version("550.54.15")
    assert not is_version(">=550")
    assert not is_version("550.54.15.1.2")
